package actor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/worker/task"
)

// Node hosts drivers. Any number of nodes share a cell; sessions spread by pulling.
type Node struct {
	cell    *jetstream.Cell
	cfg     Config
	runs    *jetstream.Runs
	tasks   task.Dispatcher
	tickets *jetstream.Tickets // while it runs
	log     *zap.Logger
	offers  *offers
	models  *models
	ready   chan struct{}
	readied sync.Once
	slots   chan struct{} // one per session that the node may hold
	crashes crashBackoff
	agents  *agentCache
	clock   clock
	moved   chan struct{} // holds one if a token was taken since held was recorded

	mu       sync.Mutex                   // guards held and recorded
	held     map[content.SessionID]string // the reply subjects of the tokens
	recorded map[content.SessionID]string // those that the node's record names
}

// NewNode returns a node that is not yet running.
func NewNode(cell *jetstream.Cell, cfg Config) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.Name == "" {
		cfg.Name = ulid.Make().String()
	}
	if !content.IsToken(cfg.Name) {
		return nil, fmt.Errorf("node config: Name %q: use letters, digits, '-' or '_'", cfg.Name)
	}
	cfg.Effects.Blobs = cell.Blobs() // input refers to nothing else
	n := &Node{
		cell: cell, cfg: cfg, runs: cell.Runs(), tasks: cell.Tasks(),
		log:    cfg.Logger.Named("node").With(logfield.Node(cfg.Name)),
		models: &models{opener: cfg.Models, known: make(map[string]model.Model)},
		ready:  make(chan struct{}), slots: make(chan struct{}, cfg.Capacity), held: make(map[content.SessionID]string),
		moved: make(chan struct{}, 1),
	}
	var err error
	if n.agents, err = newAgentCache(cfg); err != nil {
		return nil, err
	}
	return n, nil
}

// Name names the node in journals.
func (n *Node) Name() string { return n.cfg.Name }

// Ready is closed once the node takes sessions.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Sessions is how many sessions the node holds now.
func (n *Node) Sessions() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.held)
}

// Run drives sessions until ctx ends; then it hands its tokens over and returns
// nil. An error says why it could not go on.
func (n *Node) Run(ctx context.Context) error {
	view, err := n.cell.Catalog().Watch(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", n.cfg.Name, err)
	}
	defer view.Close()
	n.offers = newOffers(view, n.log)
	if n.tickets, err = n.cell.Tickets(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("node %s: %w", n.cfg.Name, err)
	}
	n.log.Info("node started", zap.Int("capacity", n.cfg.Capacity))

	drivers, drain := context.WithCancelCause(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.offers.follow(gctx) })
	group.Go(func() error { return n.sweep(gctx) })
	fired := make(chan string, alarmsKept)
	group.Go(func() error { return n.alarms(gctx, fired) })
	group.Go(func() error { return n.follow(gctx, fired) })
	group.Go(func() error { return n.record(gctx) })
	group.Go(func() error { return n.guard(gctx) })
	group.Go(func() error { return n.take(gctx, drivers, &running) })
	err = group.Wait()
	n.takeNoMore(ctx)
	drain(ErrDrain)
	running.Wait()
	n.log.Info("node stopped")
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("node %s: %w", n.cfg.Name, err)
}

// take pulls run tokens, one for every free slot.
func (n *Node) take(ctx, drivers context.Context, running *sync.WaitGroup) error {
	for {
		select {
		case n.slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		n.readied.Do(func() { close(n.ready) })
		token, err := n.runs.Take(ctx)
		if err != nil {
			<-n.slots
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case errors.Is(err, nats.ErrConnectionClosed):
				return fmt.Errorf("take a run token: %w", err)
			}
			n.log.Warn("no run token could be taken", zap.Error(err))
			if !pause(ctx, time.Second) {
				return context.Cause(ctx)
			}
			continue
		}
		running.Go(func() {
			defer func() { <-n.slots }()
			n.drive(drivers, token)
		})
	}
}

// takeNoMoreTimeout bounds how long a server that does not answer holds up a drain.
const takeNoMoreTimeout = time.Second

// takeNoMore sees to it that the server gives this node no token any more, and so none
// of those that it hands over next.
func (n *Node) takeNoMore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeNoMoreTimeout)
	defer cancel()
	if err := n.runs.Close(ctx); err != nil {
		n.log.Warn("the server may give this node tokens yet", zap.Error(err))
	}
}

// drive runs one session's driver for as long as its token lasts.
func (n *Node) drive(ctx context.Context, token *jetstream.Token) {
	s := token.Session()
	log := n.cfg.Logger.Named("driver").With(logfield.Session(s), logfield.Node(n.cfg.Name))
	n.mu.Lock()
	n.held[s] = token.Reply()
	n.mu.Unlock()
	n.recordSoon()
	n.cfg.Metrics.SessionTaken()
	how, err := newDriver(n, token, log).Run(ctx)
	n.mu.Lock()
	if n.held[s] == token.Reply() { // else another driver of this node has the session by now
		delete(n.held, s)
	}
	n.mu.Unlock()
	n.cfg.Metrics.SessionLeft(how)
	switch {
	case err == nil:
		n.crashes.forget(s)
		log.Info("session left", zap.String("how", how))
	case errors.Is(err, ErrFenced), errors.Is(err, ErrLeaseLost):
		log.Warn("session lost", zap.String("how", how), zap.Error(err))
	case how == "broken":
		n.crashes.log(log, s, err)
	default:
		log.Error("session cannot be driven", zap.String("how", how), zap.Error(err))
	}
}

// sweep wakes the sessions that have commands and no token: their wake was lost. It
// looks after the schedules that fired, too.
func (n *Node) sweep(ctx context.Context) error {
	for sweeps := 0; pause(ctx, n.cfg.Sweep/2+rand.N(n.cfg.Sweep)); sweeps++ { //nolint:gosec // jitter
		n.sweepSchedules(ctx, sweeps%sweepsToAll == 0)
		orphans, err := n.runs.Orphans(ctx)
		if err != nil {
			n.log.Warn("sweep went wrong", zap.Error(err))
			continue
		}
		for _, s := range orphans {
			if err := n.runs.Wake(ctx, s); err != nil {
				n.log.Warn("session could not be woken", logfield.Session(s), zap.Error(err))
			}
		}
	}
	return context.Cause(ctx)
}

// pause waits and reports whether ctx still holds.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// maxBackoff is the longest pause before a session that broke its driver is tried again: by
// then an operator may have repaired what it needs.
const maxBackoff = 10 * time.Minute

// crashBackoff remembers the sessions that broke their drivers on this node.
type crashBackoff struct {
	mu    sync.Mutex // guards known
	known map[content.SessionID]*crash
}

type crash struct {
	pause time.Duration
	why   string // as it was logged
}

// next is the pause before the session is tried again: at first as after a crashed node,
// then twice the one before.
func (b *crashBackoff) next(t *jetstream.Token) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = make(map[content.SessionID]*crash)
	}
	c := b.known[t.Session()]
	if c == nil {
		c = &crash{pause: t.AckWait()}
		b.known[t.Session()] = c
		return c.pause
	}
	c.pause = min(2*c.pause, maxBackoff)
	return c.pause
}

func (b *crashBackoff) forget(s content.SessionID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, s)
}

// log logs an error once, and again when the session breaks for another reason.
func (b *crashBackoff) log(log *zap.Logger, s content.SessionID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.known[s]; c != nil {
		if c.why == err.Error() {
			log.Debug("session still cannot be driven", zap.Error(err), zap.Duration("again", c.pause))
			return
		}
		c.why = err.Error()
	}
	fields := []zap.Field{zap.Error(err)}
	if p, ok := errors.AsType[*engine.PanicError](err); ok {
		fields = append(fields, zap.ByteString("stack", p.Stack))
	}
	log.Error("session cannot be driven", fields...)
}
