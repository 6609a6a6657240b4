package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/jetstream/trials"
)

// world is a cell, its processes and what they recorded.
type world struct {
	cfg    Config
	site   *site
	ledger *ledger
	log    *findings

	nodes, workers pool
	clients        []*cell.Process
	observers      []*observer
	writers        []*writer
	observerProcs  []*cell.Process
	writerProcs    []*cell.Process
	callers        []*cell.Process // run the caller's clients

	results counter // successful calls, as users saw the results arrive
	aside   counter // sessions that were set aside and retried
	crowd   crowd

	mu      sync.Mutex // guards the rest
	killed  []*cell.Process
	hostile []content.SessionID // sessions of hostile senders
}

// node starts another node.
func (w *world) node(ctx context.Context) error {
	p, err := w.site.newProcess(ctx, w.nodes.name("n"))
	if err != nil {
		return err
	}
	p.Run(context.WithoutCancel(ctx), func(ctx context.Context) error { w.supervise(ctx, p); return nil })
	w.nodes.add(p)
	return nil
}

// worker starts another worker.
func (w *world) worker(ctx context.Context) error {
	p, err := w.site.newProcess(ctx, w.workers.name("w"))
	if err != nil {
		return err
	}
	work, err := w.newWorker(ctx, p)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	p.Run(context.WithoutCancel(ctx), work.Run)
	w.workers.add(p)
	return nil
}

// pickAny returns one of all processes.
func (w *world) pickAny(pick uint64) *cell.Process {
	return one(slices.Concat(w.nodes.list(), w.workers.list(), w.clients, w.observerProcs, w.writerProcs, w.callers), pick)
}

// addKilled keeps a killed process, whose end is checked later.
func (w *world) addKilled(p *cell.Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.killed = append(w.killed, p)
}

// sessionsPerClient is how many sessions share a client's connection.
const sessionsPerClient = 8

// populate starts all processes.
func (w *world) populate(ctx context.Context) error {
	for range w.cfg.Workers {
		if err := w.worker(ctx); err != nil {
			return err
		}
	}
	for range w.cfg.Nodes {
		if err := w.node(ctx); err != nil {
			return err
		}
	}
	for n := range max(2, w.cfg.Sessions/sessionsPerClient) {
		p, err := w.site.newProcess(ctx, fmt.Sprint("client", n+1))
		if err != nil {
			return err
		}
		w.clients = append(w.clients, p)
	}
	for n := range w.cfg.Clients {
		p, err := w.site.newProcess(ctx, fmt.Sprint("caller", n+1))
		if err != nil {
			return err
		}
		w.callers = append(w.callers, p)
	}
	return w.watch(ctx)
}

// watch starts observers that follow all sessions, and writers that append to a journal of
// their own.
func (w *world) watch(ctx context.Context) error {
	running := context.WithoutCancel(ctx)
	for n := range 2 {
		p, err := w.site.newProcess(ctx, fmt.Sprint("observer", n+1))
		if err != nil {
			return err
		}
		o := newObserver(w.log)
		w.observers, w.observerProcs = append(w.observers, o), append(w.observerProcs, p)
		p.Run(running, func(ctx context.Context) error { o.watch(ctx, p.Cell.Journal()); return nil })
	}
	for n := range 2 {
		p, err := w.site.newProcess(ctx, fmt.Sprint("writer", n+1))
		if err != nil {
			return err
		}
		wr := newWriter(p.Name, w.log)
		w.writers, w.writerProcs = append(w.writers, wr), append(w.writerProcs, p)
		p.Run(running, func(ctx context.Context) error { wr.write(ctx, p.Cell.Journal()); return nil })
	}
	return nil
}

// counter counts what happens and can be waited for. Its zero value is ready.
type counter struct {
	mu      sync.Mutex
	n       int
	changed chan struct{} // closed when n changes; nil if no call waits
}

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// await waits until n have happened, or ctx ends.
func (c *counter) await(ctx context.Context, n int) {
	for ctx.Err() == nil {
		c.mu.Lock()
		if c.n >= n {
			c.mu.Unlock()
			return
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// operate acts as an operator until ctx ends: it retries the sessions that nodes have set aside. A harmless
// session is set aside if two nodes in a row are killed while they claim it.
func (w *world) operate(ctx context.Context) {
	notes := trials.Of(w.site.cell)
	for pause.For(ctx, time.Second) {
		all, err := notes.Aside(ctx)
		if err != nil {
			w.log.note("sessions set aside: %v", err)
		}
		for _, note := range all {
			if err := notes.Retry(ctx, note.Session, "torture"); err != nil {
				w.log.note("retry: %v", err)
				continue
			}
			w.log.note("%s was set aside: %+v", note.Session, note.Broke)
			w.aside.add()
		}
	}
}

// crowd holds the users of a run.
type crowd struct {
	mu      sync.Mutex
	all     []*user
	running sync.WaitGroup
}

// converse runs one session after another in every slot until over is closed, and returns
// when all scenarios are done, or with ctx. Their users attend to the sessions until ctx
// ends.
func (w *world) converse(ctx context.Context, over <-chan struct{}) {
	var slots sync.WaitGroup
	for slot := range w.cfg.Sessions {
		slots.Go(func() {
			p := w.clients[slot%len(w.clients)]
			cl, err := client.Open(p.Conn, w.site.namespace, client.WithName("torture"))
			if err != nil {
				w.log.violation("", EndsInTime, fmt.Sprintf("a client cannot start: %v", err))
				return
			}
			for n := 1; n == 1 || !closed(over); n++ {
				u := newUser(scenarioOf(w.cfg.Seed, slot+1, n, w.cfg.Workload.Config), cl, p.Cell, w, over)
				w.crowd.join(ctx, u)
				select {
				case <-u.through:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	slots.Wait()
}

// pick returns one of the sessions whose scenario is not done, or "" if there is none.
func (c *crowd) pick(pick uint64) content.SessionID {
	c.mu.Lock()
	defer c.mu.Unlock()
	busy := slices.DeleteFunc(slices.Clone(c.all), func(u *user) bool { return closed(u.through) })
	if len(busy) == 0 {
		return ""
	}
	return busy[pick%uint64(len(busy))].scenario.id
}

func (c *crowd) join(ctx context.Context, p *user) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, p)
	c.running.Go(func() { p.live(ctx) })
}

// settle waits until all sessions are at rest and stay so, or until ctx ends. The outcome of
// an abandoned call arrives when its worker finishes it, or its lease expires.
func (c *crowd) settle(ctx context.Context, tail time.Duration) {
	quiet := queueLease + 2*time.Second + tail
	since := time.Now()
	for pause.For(ctx, 100*time.Millisecond) && time.Since(since) < quiet {
		for _, p := range c.all {
			if !p.atRest() {
				since = time.Now()
			}
		}
	}
}

// endTimeout is how long processes may take to end, in addition to the time of their calls. A killed process
// may wait for answers that never come.
const endTimeout = 30 * time.Second

// leave ends processes as SIGTERM does.
func (w *world) leave(ctx context.Context, leaving []*cell.Process) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout+w.cfg.Workload.Worker.DrainTimeout)
	defer cancel()
	var ending sync.WaitGroup
	for _, p := range leaving {
		ending.Go(func() {
			if err := p.Close(ctx); err != nil {
				w.log.violation("", EndsInTime, err.Error())
			}
		})
	}
	ending.Wait()
}

// callersTimeout is how long the caller's clients may take to return after the faults.
const callersTimeout = 2 * time.Minute

// awaitCallers waits for the caller's clients.
func (w *world) awaitCallers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callersTimeout)
	defer cancel()
	for _, p := range w.callers {
		if err := p.Wait(ctx); err != nil {
			w.log.violation("", EndsInTime, err.Error())
		}
	}
}

// awaitKilled waits for killed processes to end.
func (w *world) awaitKilled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout+w.cfg.Workload.Worker.DrainTimeout)
	defer cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.killed {
		if err := p.Wait(ctx); errors.Is(err, context.DeadlineExceeded) {
			w.log.violation("", EndsInTime, fmt.Sprintf("killed, %s", err))
		}
		p.Proxy.Close()
	}
	w.killed = nil
}
