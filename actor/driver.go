package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// Driver owns one session while it holds its run token. Everything in it belongs
// to Run's goroutine, but for what effects are given.
type Driver struct {
	node    *Node
	token   *jetstream.Token
	lease   *lease
	log     *zap.Logger
	journal *jetstream.Journal
	inbox   *jetstream.Inbox
	live    *jetstream.Live
	fail    context.CancelCauseFunc // ends Run

	state     *loop.State
	outfit    *outfit // of the session's agent, or of none
	head      journal.Head
	cursors   map[events.Lane]uint64 // handled, also what no entry records yet
	performer *engine.Performer
	view      atomic.Pointer[view]
	posted    posted
	again     []string        // calls that were overtaken on their queues, until the inbox is read
	unposted  chan string     // calls that are not on their queues after all
	gate      loop.Call       // the last gate that was owed, until its verdict is in
	unread    chan struct{}   // holds one if the inbox held more than was read of it
	listings  []*listing      // of sessions with something for a person to decide
	unproven  map[string]bool // calls about which a report came without their ticket, by identity
	parked    bool            // the last entry that was read lets the session go
	serving   bool            // it has claimed the session and read its inbox
	armed     bool            // the server may hold timers of the session
	snapped   uint64          // sequence of the last snapshot
	taken     int             // commands
	looked    int             // taken when the inbox was last looked into
}

func newDriver(n *Node, token *jetstream.Token, log *zap.Logger) *Driver {
	return &Driver{
		node: n, token: token, lease: newLease(token, log), log: log,
		journal: n.cell.Journal(), inbox: n.cell.Inbox(), live: n.cell.Live(),
		cursors: make(map[events.Lane]uint64), unposted: make(chan string), unread: make(chan struct{}, 1),
		listings: listings(n.cell),
	}
}

// Run drives the session until it can be parked, the node drains, or the session
// is lost. It says how the session was left.
func (d *Driver) Run(ctx context.Context) (how string, err error) {
	ctx, d.fail = context.WithCancelCause(ctx)
	defer d.fail(nil)
	d.lease.start(ctx, d.fail)
	defer d.lease.stop()
	d.performer = engine.NewPerformer(ctx, d.perform)
	defer d.performer.Stop(ErrDrain, nil)
	if err := d.drive(ctx); err != nil {
		return d.left(ctx, err)
	}
	return "parked", nil
}

// drive returns nil when the session was let go.
func (d *Driver) drive(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &brokenError{what: fmt.Sprintf("the core at %d", d.head.Seq), value: p, stack: debug.Stack()}
		}
	}()
	listener, err := d.inbox.Listen(ctx, d.token.Session())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer listener.Close()
	exists, err := d.claim(ctx)
	if err != nil {
		return err
	}
	if !exists {
		return d.letGo(ctx) // what its inbox holds can never be handled
	}
	if err := d.settleLists(ctx); err != nil {
		return err
	}
	if err := d.recover(ctx); err != nil {
		return err
	}
	d.serving = true
	for parked := false; !parked; {
		if err := d.serve(ctx, listener); err != nil {
			return err
		}
		if parked, err = d.park(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serve handles commands and reports until the session is idle and can be parked.
func (d *Driver) serve(ctx context.Context, l *jetstream.Listener) error {
	look, proof, idle := every(d.token.AckWait()/3), every(d.token.AckWait()), every(d.node.cfg.Idle)
	beat := time.NewTicker(min(idle.period, look.period) / 2) // one: each costs with every command
	defer beat.Stop()
	for {
		var err error
		select {
		case m := <-l.C():
			err, idle.last = d.receive(ctx, m), time.Now()
		case r := <-d.performer.Reports():
			err, idle.last = d.report(ctx, r), time.Now()
		case id := <-d.unposted:
			err = d.repost(ctx, id)
		case <-d.unread:
			err, idle.last = d.readInbox(ctx), time.Now()
		case now := <-beat.C:
			if look.due(now) {
				err = d.look(ctx)
			}
			if err == nil && proof.due(now) {
				err = d.prove(ctx)
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
	}
}

// periodic is something that is due a period after it last was.
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

// look reads the inbox if nothing was heard for a while: a leader that is replaced
// may lose live copies without a word.
func (d *Driver) look(ctx context.Context) error {
	heard := d.taken > d.looked
	d.looked = d.taken
	if heard {
		return nil
	}
	return d.readInbox(ctx)
}

// prove finds out whether the token is still held: publishing it again is refused
// while it is. Then it looks after the calls that wait for their workers.
func (d *Driver) prove(ctx context.Context) error {
	held, err := d.token.Held(ctx)
	switch {
	case err != nil:
		d.log.Warn("the lease could not be proved", zap.Error(err))
		return nil
	case !held:
		return ErrLeaseLost
	}
	return d.recheck(ctx)
}

// receive takes a live command, unless one before it may have been missed; then
// the inbox is read.
func (d *Driver) receive(ctx context.Context, m jetstream.Message) error {
	switch {
	case m.Gap || m.Last > d.cursors[m.Lane]:
		return d.readInbox(ctx)
	case m.Seq <= d.cursors[m.Lane]:
		return nil
	}
	if err := d.take(ctx, m); err != nil {
		return err
	}
	if len(d.again) > 0 {
		return d.readInbox(ctx)
	}
	return d.sync(ctx)
}

// readInbox handles what the inbox holds past the cursors, and only then performs:
// the last report may be the result of a call that the first one would start. Of
// what else there is very much, the rest is read between other work.
func (d *Driver) readInbox(ctx context.Context) error {
	if err := d.handleInbox(ctx); err != nil {
		return err
	}
	return d.sync(ctx)
}

// handleInbox handles what the inbox holds past the cursors.
func (d *Driver) handleInbox(ctx context.Context) error {
	for reports := true; reports; {
		messages, err := d.inbox.Read(ctx, d.state.Session, d.cursorList())
		if err != nil {
			return fmt.Errorf("read inbox: %w", err)
		}
		overtaken := len(d.again)
		reports = false
		for _, m := range messages {
			if m.More {
				reports = reports || m.Lane == events.LaneReport
				d.readOnSoon()
			}
			if m.Seq <= d.cursors[m.Lane] {
				continue
			}
			if err := d.take(ctx, m); err != nil {
				return err
			}
		}
		reports = reports || len(d.again) > overtaken
	}
	d.dispatchAgain()
	return nil
}

// readOnSoon has the inbox read again, beside other work.
func (d *Driver) readOnSoon() {
	select {
	case d.unread <- struct{}{}:
	default: // it will be
	}
}

// take decides one command and moves its lane's cursor: with the entry that it
// causes, else in memory until the next one.
func (d *Driver) take(ctx context.Context, m jetstream.Message) error {
	d.cursors[m.Lane] = m.Seq
	if d.taken++; d.taken%purgeEvery == 0 {
		d.tidy(ctx)
	}
	switch {
	case m.Err != nil:
		d.log.Warn("bad command passed over", logfield.Seq(m.Seq), zap.Error(m.Err))
		d.node.cfg.Metrics.CommandHandled("bad", "passed_over")
		return nil //nolint:nilerr // a bad command must not stop its session
	case m.Envelope.Session != d.state.Session, commands.LaneOf(m.Envelope.Command) != m.Lane:
		d.log.Warn("misplaced command passed over", logfield.Seq(m.Seq), logfield.Cause(m.Envelope.ID))
		d.node.cfg.Metrics.CommandHandled(commands.NameOf(m.Envelope.Command), "misplaced")
		return nil
	case m.Lane == events.LaneReport && !d.vouched(m):
		d.log.Warn("report without the ticket of its call passed over", logfield.Seq(m.Seq), logfield.Cause(m.Envelope.ID))
		d.node.cfg.Metrics.CommandHandled(commands.NameOf(m.Envelope.Command), "forged")
		return nil
	}
	if r, ok := m.Envelope.Command.(commands.ReportOvertaken); ok {
		if err := d.overtaken(ctx, r); err != nil {
			return err
		}
	}
	before := d.head.Seq
	err := d.decide(ctx, m.Envelope)
	r, refused := errors.AsType[*loop.Rejection](err)
	switch {
	case refused:
		d.node.cfg.Metrics.CommandHandled(commands.NameOf(m.Envelope.Command), "refused")
		d.tell(events.Refused{Command: m.Envelope.ID, Reason: r.Reason, Detail: r.Detail})
		return nil
	case err == nil && d.head.Seq == before:
		d.node.cfg.Metrics.CommandHandled(commands.NameOf(m.Envelope.Command), "ignored")
		if commands.IsAsk(m.Envelope.Command) && !d.state.Handled(m.Envelope.ID) {
			d.tell(events.Refused{Command: m.Envelope.ID}) // for no reason: there was nothing to do
		}
	}
	return err
}

// report handles what an effect brought. A timer that came before its time, by a
// clock that was set back, is armed again.
func (d *Driver) report(ctx context.Context, r engine.Report) error {
	if _, ok := r.Command.(commands.ReportTimer); ok {
		d.performer.Forget(r.Cause)
	}
	env := commands.Envelope{ID: r.Cause, Session: d.state.Session, By: d.node.cfg.Name, Command: r.Command}
	if err := d.decide(ctx, env); err != nil {
		return err
	}
	if d.notHere(r.Command) {
		return errNotHere
	}
	return d.sync(ctx)
}

// decide is the whole life of a command but for what it leads to: decide, append,
// fold. A sync follows.
func (d *Driver) decide(ctx context.Context, env commands.Envelope) error {
	catalog, err := d.node.offers.catalog(ctx, d.state.Config.Tools, d.outfit)
	if err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	env.Command = d.verdict(env.Command)
	env.At = max(content.TimeOf(time.Now()), d.state.At)
	env.Catalog = catalog.Facts()
	if o, ok := env.Command.(commands.OpenSession); ok {
		if err := d.wanted(ctx, o); err != nil {
			return err
		}
		if o, err = d.begins(ctx, o); err != nil {
			return err
		}
		if catalog, err = d.node.offers.catalog(ctx, o.Config.Tools, d.outfit); err != nil {
			return fmt.Errorf("catalog: %w", err)
		}
		env.Command, env.Catalog = o, catalog.Facts()
	}
	if t, ok := env.Command.(commands.StartTask); ok {
		env.Command = d.gated(t)
	}
	if r, ok := env.Command.(commands.ResolveApproval); ok {
		env.Checks = d.outfit.runner.CheckPatched(ctx, d.state, catalog, r)
	}
	if env.Hooks, err = d.asked(ctx, env); err != nil {
		return err
	}
	if e := d.log.Check(zap.DebugLevel, "command in hand"); e != nil {
		e.Write(zap.Reflect("envelope", env))
	}
	evs, err := loop.Decide(d.state, env)
	if err != nil || len(evs) == 0 {
		return err
	}
	entry := events.Entry{
		Session: d.state.Session, Cause: env.ID, At: env.At, Epoch: epochOf(evs, d.state.Epoch),
		Cursors: d.movedCursors(), Events: evs,
	}
	if err := d.enlist(ctx, evs); err != nil {
		return err
	}
	began := time.Now()
	head, err := d.append(ctx, entry)
	if err != nil {
		return fmt.Errorf("append %s after %d: %w", d.state.Session, d.head.Seq, err)
	}
	d.node.cfg.Metrics.EntryAppended(len(evs), time.Since(began))
	d.node.cfg.Metrics.CommandHandled(commands.NameOf(env.Command), "accepted")
	entry.Seq, d.head = head.Seq, head
	d.state.Fold(entry)
	d.strike(ctx)
	if d.head.Seq-d.snapped >= max(d.node.cfg.Snapshot, d.snapped/4) { // a share, so that their cost stays linear
		d.putSnapshot(ctx)
	}
	return nil
}

// appendAgain is the pause between attempts at an append that nobody took.
const appendAgain = 50 * time.Millisecond

// append writes an entry behind the head. That no server took it is certain, and
// so is tried again: a leader is being elected. After any other error it is not.
func (d *Driver) append(ctx context.Context, e events.Entry) (journal.Head, error) {
	for {
		head, err := d.journal.Append(context.WithoutCancel(ctx), d.head, e)
		if !errors.Is(err, nats.ErrNoResponders) || !d.lease.fresh() || !pause(ctx, appendAgain) {
			return head, err
		}
	}
}

func epochOf(evs []events.Event, now uint64) uint64 {
	if c, ok := evs[0].(events.DriverClaimed); ok {
		return c.Epoch
	}
	return now
}

// tell shows something to whoever looks on; it may be lost.
func (d *Driver) tell(ev events.Event) {
	if err := d.live.Publish(d.token.Session(), ev); err != nil {
		d.log.Debug("live event lost", zap.Error(err))
	}
}

// lanes in the order in which cursors are written.
func lanes() []events.Lane {
	return []events.Lane{events.LaneAsk, events.LaneDecide, events.LaneReport, events.LaneDue}
}

func (d *Driver) cursorList() []events.Cursor {
	var out []events.Cursor
	for _, l := range lanes() {
		out = append(out, events.Cursor{Lane: l, Seq: d.cursors[l]})
	}
	return out
}

// movedCursors are those that the journal does not know yet.
func (d *Driver) movedCursors() []events.Cursor {
	var out []events.Cursor
	for _, l := range lanes() {
		if seq := d.cursors[l]; seq > d.state.Cursor(l) {
			out = append(out, events.Cursor{Lane: l, Seq: seq})
		}
	}
	return out
}
