// Package actor runs sessions as actors over a cell of NATS JetStream: a [Node]
// takes run tokens while it has capacity, and a driver owns one session for as long
// as it holds the session's token.
//
// The one idea: a driver is a goroutine that owns one State. It handles commands
// one at a time: it decides, appends one guarded entry, folds it, and makes the
// running effects equal to the owed ones. Everything that matters is in the
// journal: if a node is killed at any moment, another one continues.
//
// The guarantees, each with its mechanism:
//
//   - single-writer: every append is guarded by the journal's last sequence. A driver
//     whose append fails, for any reason, stops at once. The next holder of the token
//     reads the outcome.
//   - no-lost-command: each lane of commands has a cursor, recorded in the entry that
//     a command causes. Live copies are a shortcut: whenever one may be missing, the
//     inbox is read from the cursors.
//   - inbox-empty-only-at-rest: while work is outstanding, the last handled command
//     stays in the inbox, which is emptied only after a guarded Parked entry. So the
//     inbox alone determines which sessions must run, and a lost wake does no lasting
//     harm.
//   - at most once, for calls that require it: before a task is published again, the
//     queue is read, then the inbox. Before anything that costs or acts, the lease
//     must be fresh.
//
// There are no partitions, no membership and no election: the node that pulled the
// token drives the session. To test against the package, run a node on an embedded
// server; both work inside a synctest bubble.
//
// Reading order: node.go takes tokens and starts drivers. driver.go has the life of a
// driver, which waits for one event at a time (next). claim.go takes the session, and
// recover.go finds its open calls. inbox.go handles commands, and direct.go the reports
// that workers send to the driver itself; decide.go decides each with engine.Session.
// perform.go starts the effects that are owed then, and dispatch.go the calls for workers;
// verify.go makes the calls of verifiers and reads their verdicts. park.go releases the
// session. crowd.go shares the node among users, and peers.go finds dead nodes.
package actor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/actor/internal/direct"
	"github.com/turnlog/turnlog/actor/internal/firing"
	"github.com/turnlog/turnlog/actor/internal/offers"
	"github.com/turnlog/turnlog/actor/internal/proof"
	"github.com/turnlog/turnlog/actor/internal/quiet"
	"github.com/turnlog/turnlog/actor/internal/tokens"
	"github.com/turnlog/turnlog/actor/internal/trials"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/internal/memo"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/release"
	"github.com/turnlog/turnlog/internal/sparselog"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/tickets"
	"github.com/turnlog/turnlog/jetstream/tombstones"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/worker/task"
)

// Node hosts drivers. Any number of nodes share a cell; each pulls sessions as it has room.
type Node struct {
	cell    *jetstream.Cell
	cfg     Config
	log     *zap.Logger
	runs    *jetstream.Runs
	tasks   task.Dispatcher
	direct  *direct.Node // calls that go to workers without being stored
	trials  *trials.Node
	tickets *task.Tickets  // set by Run
	offers  *offers.Offers // set by Run
	proofs  *proof.Guard   // set by Run; nil: nothing is checked
	firing  *firing.Handler
	noAgent *agentRuntime // for sessions without an agent
	agents  memo.Cache[[sha256.Size]byte, *agentRuntime]
	models  memo.Cache[modelKey, model.Model]
	errors  lastErrors
	crowd   crowd
	sparse  sparselog.Log
	clock   clock
	ends    *memo.Shared[jetstream.Ends] // of the streams of commands

	ready   chan struct{}
	readied sync.Once
	listed  chan struct{} // closed when the node's own tools are in the catalog, or cannot be put there
	listing sync.Once
	leaving chan struct{} // closed to tell drivers to finish the calls of this process and then end
	slots   chan struct{} // one per session that the node may hold
	tokens  *tokens.Held
	drivers *quiet.Drivers // drivers that wait
}

// NewNode returns a node that is not yet running.
func NewNode(cell *jetstream.Cell, cfg Config) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg, cell = cfg.withDefaults(), cell.Signing(cfg.Key)
	cfg.Effects.Blobs = cell.Blobs() // input refers to no other blobs
	none, err := newAgentRuntime(cfg, engine.Equipment{})
	if err != nil {
		return nil, err
	}
	n := &Node{
		ends: memo.NewShared[jetstream.Ends](), drivers: quiet.New(),
		cell: cell, cfg: cfg, runs: cell.Runs(), tasks: cell.Tasks(), noAgent: none,
		log:   cfg.Logger.Named("node").With(logfield.Node(cfg.Name)),
		ready: make(chan struct{}), listed: make(chan struct{}), leaving: make(chan struct{}), slots: make(chan struct{}, cfg.Capacity),
	}
	process := ulid.Make().String()
	n.trials = trials.New(cell, cfg.Name, process, &n.sparse)
	n.tokens = tokens.New(cell.Nodes(), jetstream.NodeRecord{Node: cfg.Name, Scripted: cfg.Scripted, Process: process, Release: release.Version()}, n.log)
	n.direct = direct.New(cell.Tasks(), cfg.Name)
	n.firing = firing.New(cell, n.runs, n.read, n.log)
	return n, nil
}

// Name returns the node's name in journals.
func (n *Node) Name() string { return n.cfg.Name }

// Ready is closed once the node can take sessions.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Sessions returns how many sessions the node holds now.
func (n *Node) Sessions() int { return n.tokens.Len() }

// Run drives sessions until ctx ends, then hands its tokens over and returns nil.
func (n *Node) Run(ctx context.Context) error {
	if err := n.run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("node %s: %w", n.cfg.Name, err)
	}
	return nil
}

func (n *Node) run(ctx context.Context) error {
	view, err := n.cell.Catalog().Watch(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	if n.cfg.Local != nil {
		select {
		case <-n.cfg.Local.Ready():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	n.offers = offers.New(view, n.cfg.Local, n.cfg.WorkerPatience, n.log, &n.sparse)
	if n.tickets, err = tickets.Of(ctx, n.cell); err != nil {
		return err
	}
	forged := func(what string) { n.cfg.Metrics.CommandHandled(what, "forged") }
	if n.proofs, err = proof.Open(ctx, n.cell, n.cfg.Root, n.cfg.Key, n.log, forged); err != nil {
		return err
	}
	n.log.Info("node started", zap.Int("capacity", n.cfg.Capacity))

	drivers, drain := context.WithCancelCause(context.WithoutCancel(ctx))
	if err := n.direct.Listen(drivers); err != nil {
		drain(err)
		return err
	}
	var running sync.WaitGroup
	group, gctx := errgroup.WithContext(ctx)
	for _, background := range []func(context.Context) error{
		n.offers.Follow, n.sweep, n.tokens.Run, n.guard, n.watch, n.serveDeletions, n.proofs.Follow, n.firing.Follow, n.advertise,
		func(ctx context.Context) error { return n.takeTokens(ctx, drivers, &running) },
	} {
		group.Go(func() error { return background(gctx) })
	}
	err = group.Wait()
	keeping, stop := context.WithCancel(drivers)
	var kept sync.WaitGroup
	kept.Go(func() { n.tokens.Keep(keeping) })
	defer kept.Wait()
	defer stop()
	n.takeNoMoreTokens(ctx)
	left := make(chan struct{})
	go func() {
		defer close(left)
		running.Wait()
	}()
	if n.cfg.Local != nil && !errors.Is(err, nats.ErrConnectionClosed) { // no result could be recorded without a connection
		close(n.leaving)
		select {
		case <-left:
		case <-time.After(n.cfg.Drain + drainGrace):
		}
	}
	drain(ErrDrain)
	<-left
	n.log.Info("node stopped")
	return err //nolint:wrapcheck // of our own functions
}

// takeTokens pulls run tokens one at a time, so that sessions spread over the nodes. While many wait it pulls
// several at a time, since each pull is a round trip to the server.
func (n *Node) takeTokens(ctx, drivers context.Context, running *sync.WaitGroup) error {
	for {
		select {
		case n.slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if n.cfg.Local != nil {
			select {
			case <-n.listed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		n.readied.Do(func() { close(n.ready) })
		token, err := n.takeToken(ctx, drivers, running)
		switch {
		case err == nil:
			n.takeMoreTokens(ctx, token, func(ctx context.Context) { _, _ = n.takeToken(ctx, drivers, running) })
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, nats.ErrConnectionClosed):
			return fmt.Errorf("take a run token: %w", err)
		}
		n.log.Warn("run token not taken", zap.Error(err))
		if !pause.For(ctx, time.Second) {
			return context.Cause(ctx)
		}
	}
}

// takeToken pulls a token for a slot that the caller holds, and drives its session.
func (n *Node) takeToken(ctx, drivers context.Context, running *sync.WaitGroup) (*jetstream.Token, error) {
	token, err := n.runs.Take(ctx)
	if err != nil {
		<-n.slots
		return nil, err
	}
	running.Go(func() {
		defer func() { <-n.slots }()
		n.drive(drivers, token)
	})
	return token, nil
}

// watch wakes the drivers that wait when something changed for them.
func (n *Node) watch(ctx context.Context) error {
	ends := func(ctx context.Context) (jetstream.Ends, error) {
		return n.ends.Get(ctx, endsFor, n.cell.Inbox().Ends)
	}
	return n.drivers.Watch(ctx, ends, n.runs.Tokens)
}

// serveDeletions ends sessions for tools that delete them by name.
func (n *Node) serveDeletions(ctx context.Context) error { return tombstones.Serve(ctx, n.cell) }

// advertiseEvery is how often the node renews its offer.
const advertiseEvery = 3 * time.Second

// advertise lists the node's own tools in the catalog for people. Other nodes ignore them.
func (n *Node) advertise(ctx context.Context) error {
	if n.cfg.Local == nil {
		return nil
	}
	own := n.cell.Offers(n.cfg.Name, task.LocalQueue)
	for failed := false; ctx.Err() == nil; pause.For(ctx, advertiseEvery) {
		soon, cancel := context.WithTimeout(ctx, advertiseEvery)
		err := own.Advertise(soon, task.Offer{Tools: n.cfg.Local.Offered()})
		cancel()
		n.listing.Do(func() { close(n.listed) }) // a client may look for its verifier at once
		if err != nil && !failed && ctx.Err() == nil {
			n.log.Warn("tools not listed", zap.Error(err))
		}
		failed = err != nil
	}
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := own.Withdraw(soon); err != nil {
		n.log.Debug("tools stay listed until they expire", zap.Error(err))
	}
	return context.Cause(ctx)
}

// drainGrace is how long after Config.Drain the worker of this process has ended its calls: it stops them,
// and abandons those that do not stop.
const drainGrace = 10 * time.Second

const (
	maxTakers = 32                     // tokens pulled at a time
	maxCrowd  = 256                    // tokens pulled at a time in a crowd, where most are discarded
	takeSoon  = 250 * time.Millisecond // how long to wait for tokens that other nodes may have taken
)

// takeMoreTokens pulls waiting tokens together, as many as there are free slots.
func (n *Node) takeMoreTokens(ctx context.Context, taken *jetstream.Token, takeToken func(context.Context)) {
	most := uint64(maxTakers)
	if inCrowd(taken) {
		most = maxCrowd
	}
	ctx, cancel := context.WithTimeout(ctx, takeSoon)
	defer cancel()
	var takers sync.WaitGroup
	defer takers.Wait()
	for range min(taken.Waiting(), most) {
		select {
		case n.slots <- struct{}{}:
			takers.Go(func() { takeToken(ctx) })
		default:
			return
		}
	}
}

// takeNoMoreTokensTimeout limits how long an unresponsive server delays a drain.
const takeNoMoreTokensTimeout = time.Second

// takeNoMoreTokens makes sure that the server gives this node no more tokens, in particular none that it is about
// to hand over.
func (n *Node) takeNoMoreTokens(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeNoMoreTokensTimeout)
	defer cancel()
	if err := n.runs.Close(ctx); err != nil {
		n.log.Warn("pull requests not withdrawn: the server may still assign tokens to this node", zap.Error(err))
	}
}

// drive runs a session's driver for as long as it has the token.
func (n *Node) drive(ctx context.Context, token *jetstream.Token) {
	if n.discard(ctx, token) {
		return
	}
	n.cfg.Metrics.SessionTaken()
	d := newDriver(n, token)
	ctx = d.start(ctx)
	how, err := d.serve(ctx)
	how, err = d.end(ctx, how, err)
	n.left(d, how, err)
}

// left cleans up after drive and logs how the session was left. The reason why a session cannot be driven is
// logged once.
func (n *Node) left(d *driver, how string, err error) {
	log, s := d.log, d.token.Session()
	n.tokens.Leave(d.lease)
	n.leaveCrowd(s)
	n.cfg.Metrics.SessionLeft(how)
	switch {
	case how == leftAbsent:
		log.Debug("no such session")
	case err == nil:
		n.errors.forget(s)
		log.Info("session left", zap.String("how", how))
	case errors.Is(err, ErrFenced), errors.Is(err, ErrLeaseLost):
		n.sparse.Line(log, zap.WarnLevel, "session lost", zap.String("how", how), zap.Error(err))
	case n.errors.isNew(s, err):
		fields := []zap.Field{zap.String("how", how), zap.Error(err)}
		if p, ok := errors.AsType[*engine.PanicError](err); ok {
			fields = append(fields, zap.ByteString("stack", p.Stack))
		}
		n.sparse.Line(log, zap.ErrorLevel, "session cannot be driven", fields...)
	default:
		log.Debug("session still cannot be driven", zap.String("how", how), zap.Error(err))
	}
}

// sweep wakes the sessions that have commands but no token, because their wake was lost. It also handles
// schedules whose firing was missed, and wakes sessions that lost messages in a stream.
func (n *Node) sweep(ctx context.Context) error {
	lost, look := losses{node: n, suspected: true}, n.runs.Sweep()
	for pause.For(ctx, n.cfg.Sweep/2+rand.N(n.cfg.Sweep)) { //nolint:gosec // jitter
		n.firing.Sweep(ctx)
		orphans, ends, err := look.Look(ctx)
		if err != nil {
			lost.suspected = true
			n.log.Warn("sweep failed", zap.Error(err))
			continue
		}
		n.wakeOrphans(ctx, n.withoutPostponed(orphans))
		n.recheckDiscarded(ctx)
		if err := lost.recover(ctx, ends); err != nil {
			n.log.Warn("sessions with lost wakes not woken", zap.Error(err))
		}
	}
	return context.Cause(ctx)
}

// lastErrors remembers why sessions could not be driven, so that a repeated error is logged once.
type lastErrors struct {
	mu       sync.Mutex // guards sessions
	sessions map[content.SessionID]string
}

// isNew reports whether the session's last driver on this node ended with another error, or none.
func (l *lastErrors) isNew(s content.SessionID, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions == nil {
		l.sessions = make(map[content.SessionID]string)
	}
	before := l.sessions[s]
	l.sessions[s] = err.Error()
	return before != err.Error()
}

func (l *lastErrors) forget(s content.SessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, s)
}
