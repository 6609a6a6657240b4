package actor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor/internal/quiet"
	"github.com/turnlog/turnlog/actor/internal/snapshots"
	"github.com/turnlog/turnlog/actor/internal/tokens"
	"github.com/turnlog/turnlog/actor/internal/trials"
	"github.com/turnlog/turnlog/audit/traces"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// driver owns one session while it holds the session's run token. Its fields belong to the goroutine of
// [Node.drive]. Effects use only those above performer.
type driver struct {
	engine.Session

	node  *Node
	token *jetstream.Token
	lease *tokens.Lease
	trial *trials.Trial
	log   *zap.Logger
	fail  context.CancelCauseFunc      // ends the driver
	agent atomic.Pointer[agentRuntime] // of the session's agent, or of sessions without one

	policy *events.Policy // of the node, for the open session; nil: not read yet

	missing   chan string // calls that turned out not to be on their queues
	performer *engine.Performer
	overtaken []string  // calls that an earlier driver's task blocked, until the inbox has been read
	verifier  loop.Call // the last verifier that was owed, until its verdict arrives

	live     *jetstream.Listener
	inbox    *jetstream.Reader // knows the handled commands, recorded or not
	unread   chan struct{}     // has a value if the inbox held more than one read returned
	unproven map[string]bool   // calls reported without their ticket, by identity
	vanished map[string]int    // how often a call was gone from its queue without a report, by identity
	queued   map[string]bool   // calls that were certainly on their queues, by identity, until the inbox has been read
	direct   []directReport    // those that are handled now
	handled  int               // number of commands of the inbox that were handled
	looked   int               // the value of handled at the last look
	purged   int               // the value of handled at the last purge of a busy inbox
	ends     jetstream.Ends    // of the streams, before look last read the inbox

	unmanned map[string]*unmanned // calls whose queues have no worker, by identity

	listings []*listing // lists of sessions that wait for a person's decision
	serving  bool       // the driver has claimed the session and read its inbox
	leaving  bool       // the driver ends when no call runs in this process
	armed    bool       // the server may hold timers of the session

	snapshots *snapshots.Taker

	timing timing

	lineage traces.Lineage                // since this driver claimed the session
	sender  atomic.Pointer[traces.Sender] // of the open turn; nil: none is known
}

func newDriver(n *Node, token *jetstream.Token) *driver {
	log := n.cfg.Logger.Named("driver").With(logfield.Session(token.Session()), logfield.Node(n.cfg.Name))
	d := &driver{
		node: n, token: token, lease: n.tokens.Hold(token), trial: n.trials.Of(token.Session(), log), log: log,
		inbox: n.cell.Inbox().Reader(token.Session(), nil), missing: make(chan string), unread: make(chan struct{}, 1),
		listings:  listings(n.cell),
		snapshots: snapshots.New(n.cell.Snapshots(), n.cfg.Snapshot, log),
	}
	d.Session = engine.Session{
		Replica: engine.Replica{State: loop.New(token.Session())}, Log: log, Append: d.append, Cursors: d.movedCursors, Steps: d.steps(),
	}
	return d
}

// start starts what a driver needs, and returns the context of its session.
func (d *driver) start(ctx context.Context) context.Context {
	ctx, d.fail = context.WithCancelCause(ctx)
	d.lease.Start(ctx, func() { d.fail(ErrLeaseLost) })
	d.trial.Begin(ctx)
	d.performer = engine.NewPerformer(ctx, d.perform, due, func(e *engine.PanicError) { d.fail(e) })
	return ctx
}

// end decides what happens to a session that serve did not release, and undoes start and begin.
func (d *driver) end(ctx context.Context, how string, err error) (string, error) {
	if err != nil {
		how, err = d.left(ctx, err)
	}
	d.timing.end()
	if d.live != nil {
		d.live.Close()
	}
	d.performer.Stop(ErrDrain, nil)
	d.lease.Stop()
	d.fail(nil)
	d.snapshots.Close()
	return how, err
}

// How a session was left.
const (
	leftParked  = "parked"
	leftDrained = "drained"
	leftHanded  = "handed" // to another node
	leftFenced  = "fenced" // another driver may have it
	leftLost    = "lost"
	leftBroken  = "broken" // its next driver would fail in the same way
	leftAside   = "aside"  // set aside: it broke nodes, and no node drives it
	leftAbsent  = "absent" // the session does not exist

	leftDiscarded = "discarded" // it has no command, and many tokens wait
	leftPostponed = "postponed" // its senders have used their share of the node, and many tokens wait
)

// rest gives back the token of a session that was woken for nothing, before anything else is read or written,
// and returns how the session was left. So a flood of wakes does not delay the sessions that have something
// to do. It also gives back the token of a session that is set aside. If it does not leave the session, it
// reports whether the journal was empty. The first read starts with what rest found in the inbox.
func (d *driver) rest(ctx context.Context) (how string, empty bool, err error) {
	defer d.Contain("waking", &err)
	var setAside, waiting bool
	var last journal.Record
	errs := make([]error, 2)
	var all sync.WaitGroup
	all.Go(func() { setAside = d.trial.Look(ctx) })
	if d.token.IsFirst() {
		all.Go(func() { waiting, errs[0] = d.inbox.Look(ctx) })
		all.Go(func() { last, errs[1] = d.node.cell.Journal().Last(ctx, d.token.Session()) })
	}
	all.Wait()
	empty = errors.Is(errs[1], journal.ErrNotFound)
	switch {
	case setAside:
		return leftAside, false, d.giveUp(ctx)
	case !d.token.IsFirst():
		return "", false, nil // its last driver may have died
	case waiting || errs[0] != nil:
		return "", empty, nil // reading the session will return the error, too
	case empty:
		how = leftAbsent
	case errs[1] == nil && rests(last.Entry):
		how = leftParked
	default:
		return "", false, nil
	}
	if held, err := d.node.runs.Holds(ctx, d.token.Session(), last.Entry); err != nil || !held {
		return "", empty, nil
	}
	return how, empty, d.release(ctx)
}

// serve handles what happens to the session until it can park. After it has released the session it returns
// nil and how the session was left.
func (d *driver) serve(ctx context.Context) (how string, err error) {
	defer d.Contain("driving", &err)
	for how, err = d.begin(ctx); how == "" && err == nil; {
		switch {
		case d.leaving && !d.busyHere():
			err = ErrDrain
		case d.timing.idle:
			how, err = d.park(ctx)
			d.timing.idle = false
		default:
			err = d.next(ctx)
			d.setBeat()
		}
	}
	return how, err
}

// begin claims the session and handles its inbox. If the session does not exist, begin leaves it.
func (d *driver) begin(ctx context.Context) (how string, err error) {
	if d.live, err = d.node.cell.Inbox().Listen(ctx, d.token.Session()); err != nil { // before rest looks at the inbox
		return "", fmt.Errorf("listen: %w", err)
	}
	how, empty, err := d.rest(ctx)
	if how != "" || err != nil {
		return how, err
	}
	d.trial.Start(ctx, d.token.IsFirst())
	d.trial.Step()
	exists, err := d.claim(ctx, empty)
	d.trial.Stepped(ctx)
	if err == nil && !exists {
		return leftAbsent, d.release(ctx) // the commands in its inbox can never be handled
	}
	if err == nil {
		err = d.settleLists(ctx)
	}
	if err == nil {
		err = d.recover(ctx)
	}
	if err == nil {
		d.serving = true
		d.caughtUp(ctx)
		d.timing.begin(d)
	}
	return "", err
}

// next waits for one event and handles it. A session that has nothing to do waits here. What this function
// and its callers keep on the stack decides whether that takes 4 KB or 8 (see stack_test.go).
func (d *driver) next(ctx context.Context) error {
	r := &d.timing
	select {
	case <-r.leaving:
		d.leaving, r.leaving = true, nil
		return nil
	case raw := <-d.live.C():
		r.active = true
		return d.receive(ctx, raw)
	case raw := <-d.live.Direct():
		r.active = true
		return d.receiveDirect(ctx, raw)
	case <-d.live.Reconnected():
	case <-d.unread:
	case report := <-d.performer.Reports():
		r.active = true
		return d.receiveReport(ctx, report)
	case id := <-d.missing:
		return d.redispatch(ctx, id)
	case <-r.waits.Woken():
		return d.woken(ctx, r.waits)
	case <-r.beat.C:
		return d.checkCalls(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.active = true
	return d.readInbox(ctx)
}

// woken does what the node woke the driver for: it proves the token and looks for commands.
func (d *driver) woken(ctx context.Context, w *quiet.Driver) (err error) {
	defer w.Done()
	if w.Proves() {
		err = d.prove(ctx)
	}
	if err == nil && w.Looks() {
		err = d.look(ctx, w)
	}
	return err
}

// checkCalls checks calls from time to time, and notices that the session is idle.
func (d *driver) checkCalls(ctx context.Context) error {
	now, r := time.Now(), &d.timing
	r.beaten = true
	if r.check.due(now) {
		if err := d.recheck(ctx); err != nil {
			return err
		}
	}
	if err := d.awaitWorkers(ctx, now); err != nil {
		return err
	}
	r.idle = r.rest.due(now) && d.atRest()
	return nil
}

// timing says when a driver looks at things although nothing happens.
type timing struct {
	check, rest periodic
	idle        bool          // the session may park
	beat        *time.Timer   // one timer for all, since each timer costs something with every command
	pause       time.Duration // of the beat

	beaten, active bool // what happened last: a beat; something that the session did

	waits   *quiet.Driver
	leave   func() // ends waits; nil: waits has not begun
	leaving <-chan struct{}
}

func (r *timing) begin(d *driver) {
	r.check, r.rest = every(d.token.AckWait()-beatSlack), every(d.node.cfg.Idle)
	r.pause = d.pause(false)
	r.beat = time.NewTimer(r.pause)
	r.waits, r.leave = d.node.drivers.Wait(d.token.Session())
	r.leaving = d.node.leaving
}

// setBeat sets the time of the next beat after something happened.
func (d *driver) setBeat() {
	r := &d.timing
	if r.active {
		r.rest.last = time.Now()
	}
	if next := d.pause(r.beaten); r.beaten || next < r.pause {
		r.pause = next
		r.beat.Reset(next)
	}
	r.beaten, r.active = false, false
}

func (r *timing) end() {
	if r.leave != nil {
		r.beat.Stop()
		r.leave()
	}
}

// pause returns how long the driver waits for an event before it checks calls, and whether to park.
func (d *driver) pause(checked bool) time.Duration {
	often, lease := d.node.cfg.Idle/2, d.token.AckWait()
	switch {
	case d.leaving || len(d.unmanned) > 0:
		return min(often, lease/3)
	case d.callsNothing():
		return min(often, time.Minute)
	case d.State.Parkable():
		return min(often, lease/3)
	case checked && len(d.openCalls()) == 0: // what runs is a model call, or a call in this process
		return time.Minute
	}
	return lease
}

// beatSlack makes periods a little shorter than the beats that they belong to, so that they are due by then.
const beatSlack = 100 * time.Millisecond

// periodic is due once per period.
type periodic struct {
	period time.Duration
	last   time.Time
}

func every(period time.Duration) periodic { return periodic{period, time.Now()} }

func (p *periodic) due(now time.Time) bool {
	if now.Sub(p.last) < p.period {
		return false
	}
	p.last = now
	return true
}

// look reads the inbox if no live command arrived for a while but one may have been stored: live copies may
// be lost when a stream's leader changes.
func (d *driver) look(ctx context.Context, again *quiet.Driver) error {
	busy := d.handled > d.looked
	d.looked = d.handled
	if busy {
		again.LookAgain()
		return nil
	}
	ends, err := d.node.ends.Get(ctx, endsFor, d.node.cell.Inbox().Ends)
	since := d.ends
	d.ends = ends // nil after an error: drivers may share the error, and each checks for itself
	if err == nil {
		if maps.Equal(ends, since) {
			return nil
		}
		if stored, err := d.node.cell.Inbox().HasNew(ctx, d.token.Session(), ends, since); err == nil && !stored {
			return nil
		}
	}
	return d.readInbox(ctx)
}

const endsFor = time.Second // a command whose live copy was lost waits up to this much longer

// prove asks the server whether the token is still held. A list of tokens would not show a stolen one.
func (d *driver) prove(ctx context.Context) error {
	held, err := d.token.Held(ctx)
	switch {
	case err != nil:
		d.log.Warn("lease not verified", zap.Error(err))
	case !held:
		return ErrLeaseLost
	}
	return nil
}
