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
	"github.com/turnlog/turnlog/audit/traces"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// driver owns one session while it holds the session's run token. Its fields belong to Run's
// goroutine; effects use only those above performer.
type driver struct {
	engine.Session

	node  *Node
	token *jetstream.Token
	lease *tokens.Lease
	trial *trial
	log   *zap.Logger
	fail  context.CancelCauseFunc      // ends Run
	agent atomic.Pointer[agentRuntime] // of the session's agent, or of sessions without one

	policy *events.Policy // of the node, for the open session; nil: not known yet

	missing   chan string // calls that turned out not to be on their queues
	performer *engine.Performer
	overtaken []string  // calls that an earlier driver's task blocked, until the inbox is read
	verifier  loop.Call // the last verifier that was owed, until its verdict arrives

	inbox    *jetstream.Reader // knows the handled commands, recorded or not
	unread   chan struct{}     // holds one if the inbox held more than one read returned
	unproven map[string]bool   // calls reported without their ticket, by identity
	vanished map[string]int    // how often a call was gone from its queue without a report, by identity
	queued   map[string]bool   // calls that were on their queues for sure, by identity, until the inbox is read
	taken    int               // counts commands
	looked   int               // the value of taken at the last look
	purged   int               // the same at the last purge of a busy inbox
	ends     jetstream.Ends    // of the streams before the inbox was last read by a look

	unmanned map[string]*unmanned // calls whose queues have no worker, by identity

	listings []*listing // of sessions with something for a person to decide
	serving  bool       // it has claimed the session and read its inbox
	leaving  bool       // it ends when no call runs in this process
	armed    bool       // the server may hold timers of the session

	snapshots *snapshots.Taker

	lineage traces.Lineage                // since this driver claimed the session
	sender  atomic.Pointer[traces.Sender] // of the open turn; nil: none is known
}

func newDriver(n *Node, token *jetstream.Token, lease *tokens.Lease, log *zap.Logger) *driver {
	d := &driver{
		node: n, token: token, lease: lease, trial: newTrial(n, token.Session(), log), log: log,
		inbox: n.cell.Inbox().Reader(token.Session(), nil), missing: make(chan string), unread: make(chan struct{}, 1),
		listings:  listings(n.cell),
		snapshots: snapshots.New(n.cell.Snapshots(), n.cfg.Snapshot, log),
	}
	d.Session = engine.Session{
		Replica: engine.Replica{State: loop.New(token.Session())}, Log: log, Append: d.append, Cursors: d.movedCursors, Steps: d.steps(),
	}
	return d
}

// Run drives the session until it parks, the node drains, or the session is lost. It returns how
// the session was left.
func (d *driver) Run(ctx context.Context) (how string, err error) {
	ctx, d.fail = context.WithCancelCause(ctx)
	defer d.snapshots.Close()
	defer d.fail(nil)
	d.lease.Start(ctx, func() { d.fail(ErrLeaseLost) })
	d.trial.begin(ctx)
	defer d.lease.Stop()
	d.performer = engine.NewPerformer(ctx, d.perform, func(e *engine.PanicError) { d.fail(e) })
	defer d.performer.Stop(ErrDrain, nil)
	how, err = d.rest(ctx)
	if how == "" && err == nil {
		d.trial.start(ctx, d.token.IsFirst())
		how, err = d.drive(ctx)
	}
	if err != nil {
		return d.left(ctx, err)
	}
	return how, nil
}

// How a session was left.
const (
	leftParked  = "parked"
	leftDrained = "drained"
	leftHanded  = "handed" // to another node
	leftFenced  = "fenced" // another driver may have it
	leftLost    = "lost"
	leftBroken  = "broken" // its next driver would end in the same way
	leftAside   = "aside"  // it broke nodes, and no node drives it
	leftAbsent  = "absent" // there is no such session

	leftDiscarded = "discarded" // it has no command, and many tokens wait
	leftPostponed = "postponed" // its senders have their share of the node, and many tokens wait
)

// rest gives the token of a session back that was woken for nothing, before anything else is read or
// written, and returns how the session was left. A flood of wakes must not delay the sessions that have
// something to do. It does the same for a session that is set aside.
func (d *driver) rest(ctx context.Context) (how string, err error) {
	defer d.Contain("waking", &err)
	var setAside, waiting bool
	var last journal.Record
	errs := make([]error, 2)
	var all sync.WaitGroup
	all.Go(func() { setAside = d.trial.look(ctx) })
	if d.token.IsFirst() {
		all.Go(func() { waiting, errs[0] = d.node.cell.Inbox().HasAny(ctx, d.token.Session()) })
		all.Go(func() { last, errs[1] = d.node.cell.Journal().Last(ctx, d.token.Session()) })
	}
	all.Wait()
	switch {
	case setAside:
		return leftAside, d.giveUp(ctx)
	case !d.token.IsFirst():
		return "", nil // its last driver may have died
	case waiting || errs[0] != nil:
		return "", nil // reading the session shows an error, too
	case errors.Is(errs[1], journal.ErrNotFound):
		how = leftAbsent
	case errs[1] == nil && rests(last.Entry):
		how = leftParked
	default:
		return "", nil
	}
	if held, err := d.node.runs.Holds(ctx, d.token.Session(), last.Entry); err != nil || !held {
		return "", nil
	}
	return how, d.release(ctx)
}

// drive returns without an error once the session was released, and how it was left.
func (d *driver) drive(ctx context.Context) (how string, err error) {
	defer d.Contain("driving", &err)
	listener, err := d.node.cell.Inbox().Listen(ctx, d.token.Session())
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	defer listener.Close()
	d.trial.step()
	exists, err := d.claim(ctx)
	d.trial.stepped(ctx)
	if err != nil {
		return "", err
	}
	if !exists {
		return leftAbsent, d.release(ctx) // the commands in its inbox can never be handled
	}
	if err := d.settleLists(ctx); err != nil {
		return "", err
	}
	if err := d.recover(ctx); err != nil {
		return "", err
	}
	d.serving = true
	d.caughtUp(ctx)
	for parked := false; !parked; {
		if err := d.serve(ctx, listener); err != nil {
			return "", err
		}
		if parked, err = d.park(ctx); err != nil {
			return "", err
		}
	}
	return leftParked, nil
}

// serve handles commands and reports until the session is idle and can park.
func (d *driver) serve(ctx context.Context, l *jetstream.Listener) error {
	check, idle := every(d.token.AckWait()-beatSlack), every(d.node.cfg.Idle)
	pause := d.pause(false)
	beat := time.NewTimer(pause) // one, since each costs with every command
	defer beat.Stop()
	waits, leave := d.node.drivers.Wait(d.token.Session())
	defer leave()
	leaving := d.node.leaving
	for {
		if d.leaving && !d.busyHere() {
			return ErrDrain
		}
		var err error
		beaten := false
		select {
		case <-leaving:
			d.leaving, leaving = true, nil
		case raw := <-l.C():
			err, idle.last = d.receive(ctx, l, raw), time.Now()
		case <-l.Reconnected():
			err, idle.last = d.readInbox(ctx), time.Now()
		case r := <-d.performer.Reports():
			err, idle.last = d.report(ctx, r), time.Now()
		case id := <-d.missing:
			err = d.redispatch(ctx, id)
		case <-waits.Woken():
			if waits.Proves() {
				err = d.prove(ctx)
			}
			if err == nil && waits.Looks() {
				err = d.look(ctx, waits)
			}
			waits.Done()
		case <-d.unread:
			err, idle.last = d.readInbox(ctx), time.Now()
		case now := <-beat.C:
			beaten = true
			if check.due(now) {
				err = d.recheck(ctx)
			}
			if err == nil {
				err = d.awaitWorkers(ctx, now)
			}
			if err == nil && idle.due(now) && d.atRest() {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if next := d.pause(beaten); beaten || next < pause {
			pause = next
			beat.Reset(pause)
		}
	}
}

// pause returns how long the driver waits for something to happen before it looks at calls, and whether to park.
func (d *driver) pause(checked bool) time.Duration {
	often, lease := d.node.cfg.Idle/2, d.token.AckWait()
	switch {
	case d.leaving || len(d.unmanned) > 0:
		return min(often, lease/3)
	case d.callsNothing():
		return min(often, time.Minute)
	case d.State.Parkable():
		return min(often, lease/3)
	case checked && len(d.openCalls()) == 0: // a call of a model, or of this process
		return time.Minute
	}
	return lease
}

// beatSlack is how much earlier than the beat for which it is meant something is due.
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

// look reads the inbox if no live command arrived for a while and one may have been stored: live copies may
// be lost when a stream's leader changes.
func (d *driver) look(ctx context.Context, again *quiet.Driver) error {
	busy := d.taken > d.looked
	d.looked = d.taken
	if busy {
		again.LookAgain()
		return nil
	}
	ends, err := d.node.ends.Get(ctx, endsFor, d.node.cell.Inbox().Ends)
	since := d.ends
	d.ends = ends // nil after an error, which other drivers may share: each finds out for itself
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

const endsFor = time.Second // a command whose live copy was lost waits that much longer

// prove checks that the token is still held, since no list has it: the server refuses to publish it again.
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
