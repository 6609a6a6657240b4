package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnlog/turnlog/client"
)

// world is a cell and all that lives in it.
type world struct {
	cfg    Config
	ground *ground
	ledger *ledger
	log    *findings

	nodes, workers crew
	clients        []*party
	onlookers      []*onlooker
	writers        []*writer
	watchers       []*party // the connections of the onlookers
	scribes        []*party // those of the writers

	mu     sync.Mutex
	buried []*party
}

// crew is parties that come and go. It is safe for concurrent use.
type crew struct {
	mu   sync.Mutex
	all  []*party
	born int
}

func (c *crew) name(prefix string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.born++
	return fmt.Sprint(prefix, c.born)
}

func (c *crew) add(p *party) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, p)
}

func (c *crew) list() []*party {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*party(nil), c.all...)
}

// pick returns one of the parties; nil: there is none.
func (c *crew) pick(pick uint64) *party {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) == 0 {
		return nil
	}
	return c.all[pick%uint64(len(c.all))]
}

// take takes one of the parties out.
func (c *crew) take(pick uint64) *party {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) == 0 {
		return nil
	}
	i := int(pick % uint64(len(c.all))) //nolint:gosec // less than what is there
	p := c.all[i]
	c.all = append(c.all[:i:i], c.all[i+1:]...)
	return p
}

// node starts one more node.
func (w *world) node(ctx context.Context) error {
	p, err := w.ground.newNode(ctx, w.nodes.name("n"), w.log, w.cfg.Logger)
	if err != nil {
		return err
	}
	w.nodes.add(p)
	return nil
}

// worker starts one more worker.
func (w *world) worker(ctx context.Context) error {
	p, err := w.ground.newWorker(ctx, w.workers.name("w"), w.ledger, w.cfg.Logger)
	if err != nil {
		return err
	}
	w.workers.add(p)
	return nil
}

// anybody returns one of all that have connections.
func (w *world) anybody(pick uint64) *party {
	all := slices.Concat(w.nodes.list(), w.workers.list(), w.clients, w.watchers, w.scribes)
	if len(all) == 0 {
		return nil
	}
	return all[pick%uint64(len(all))]
}

// bury keeps somebody who was killed, to see that it ends.
func (w *world) bury(p *party) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buried = append(w.buried, p)
}

// sessionsPerClient is how many sessions share a client's connection.
const sessionsPerClient = 8

// populate brings everybody to life.
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
		p, err := w.ground.newParty(ctx, fmt.Sprint("client", n+1))
		if err != nil {
			return err
		}
		w.clients = append(w.clients, p)
	}
	return w.look(ctx)
}

// look has observers follow all sessions, and writers append beside them, each over a
// connection of its own.
func (w *world) look(ctx context.Context) error {
	for n := range 2 {
		watcher, err := w.ground.newParty(ctx, fmt.Sprint("observer", n+1))
		if err != nil {
			return err
		}
		o := newOnlooker(w.log)
		w.onlookers, w.watchers = append(w.onlookers, o), append(w.watchers, watcher)
		watcher.run(ctx, func(ctx context.Context) error { o.watch(ctx, watcher.cell.Journal()); return nil })
		scribe, err := w.ground.newParty(ctx, fmt.Sprint("writer", n+1))
		if err != nil {
			return err
		}
		wr := newWriter(scribe.name, w.log)
		w.writers, w.scribes = append(w.writers, wr), append(w.scribes, scribe)
		scribe.run(ctx, func(ctx context.Context) error { wr.write(ctx, scribe.cell.Journal()); return nil })
	}
	return nil
}

// company is the persons of a run.
type company struct {
	mu      sync.Mutex
	all     []*person
	talking sync.WaitGroup
}

// converse has every slot begin one session after the other until over is closed, and
// returns when all of them are told, or with ctx. Their persons attend to them until ctx
// ends.
func (w *world) converse(ctx context.Context, over <-chan struct{}) *company {
	c := &company{}
	var slots sync.WaitGroup
	for slot := range w.cfg.Sessions {
		slots.Go(func() {
			cl, err := client.Open(w.clients[slot%len(w.clients)].conn, w.ground.namespace, client.WithName("torture"))
			if err != nil {
				w.log.violation("", EndsInTime, fmt.Sprintf("a client cannot begin: %v", err))
				return
			}
			for n := 1; n == 1 || !closed(over); n++ {
				p := newPerson(storyOf(w.cfg.Seed, slot+1, n), cl, w.log, over)
				c.join(ctx, p)
				select {
				case <-p.through:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	slots.Wait()
	return c
}

func (c *company) join(ctx context.Context, p *person) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, p)
	c.talking.Go(func() { p.live(ctx) })
}

// quiet is how long nothing may happen to a session that is at rest: the outcome of a
// call that was given up comes when its worker is done with it, or its lease lapses.
const quiet = queueLease + 2*time.Second

// settle waits until all sessions are at rest and stay so, or until ctx ends.
func (c *company) settle(ctx context.Context) {
	since := time.Now()
	for pause(ctx, 100*time.Millisecond) && time.Since(since) < quiet {
		for _, p := range c.all {
			if !p.atRest() {
				since = time.Now()
			}
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// endTimeout is how long everybody has to end. What was killed may wait for answers
// that never come.
const endTimeout = 30 * time.Second

// leave ends the parties as SIGTERM does, and sees that those who were killed are gone.
func (w *world) leave(ctx context.Context, leaving []*party) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	var ending sync.WaitGroup
	for _, p := range leaving {
		ending.Go(func() {
			if err := p.close(ctx); err != nil {
				w.log.violation("", EndsInTime, err.Error())
			}
		})
	}
	ending.Wait()
}

// forget waits for those who were killed.
func (w *world) forget(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.buried {
		if err := p.gone(ctx); errors.Is(err, context.DeadlineExceeded) {
			w.log.violation("", EndsInTime, fmt.Sprintf("what is left of %s", err))
		}
		p.proxy.Close()
	}
	w.buried = nil
}
