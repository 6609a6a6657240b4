package actor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/schedule"
)

// alarmsKept is how many schedules that fired may wait for their turn. The sweep finds
// those beyond.
const alarmsKept = 1024

// alarms wakes the sessions whose timers fired, and passes on which schedules did.
// What it misses the sweep finds.
func (n *Node) alarms(ctx context.Context, fired chan<- string) error {
	heard, err := n.cell.Alarms(ctx)
	if err != nil {
		return fmt.Errorf("alarms: %w", err)
	}
	for a := range heard {
		if a.Schedule == "" {
			n.runs.WakeSoon(a.Session)
			continue
		}
		select {
		case fired <- a.Schedule:
		default:
		}
	}
	return context.Cause(ctx)
}

// follow acts on the schedules that fired, one after another.
func (n *Node) follow(ctx context.Context, fired <-chan string) error {
	for {
		select {
		case name := <-fired:
			n.fire(ctx, name)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sweepSchedules acts on the firings that no node heard, or finished, and,
// if it is to look at all schedules, on those that should have fired.
func (n *Node) sweepSchedules(ctx context.Context, all bool) {
	names, err := n.cell.Schedules().Fired(ctx)
	if err != nil {
		n.log.Warn("sweep of schedules went wrong", zap.Error(err))
	}
	for _, name := range names {
		n.fire(ctx, name)
	}
	if !all || err != nil {
		return
	}
	standing, err := n.cell.Schedules().List(ctx)
	if err != nil {
		n.log.Warn("sweep of schedules went wrong", zap.Error(err))
	}
	for _, s := range standing {
		n.fireOverdue(ctx, s)
		if err := n.cell.Schedules().Expire(ctx, s, time.Now()); err != nil {
			n.log.Warn("sweep of schedules went wrong", zap.Error(err))
		}
	}
}

const (
	// forgotten is how long after its time a firing may come before it is thought that
	// the server has forgotten it: one that is killed does.
	forgotten = 30 * time.Second
	// sweepsToAll is how often firings are swept until all schedules are looked at.
	sweepsToAll = 6
)

// fireOverdue acts on a firing that should have come. If it comes after all, it is a
// repetition.
func (n *Node) fireOverdue(ctx context.Context, s jetstream.Standing) {
	if s.Err != nil || s.Over || !s.Pending.IsZero() {
		return
	}
	since := s.Added
	if s.Last.Result != "" {
		since = s.Last.Due
	}
	due := s.Timing.Overdue(since, time.Now().Add(-forgotten))
	if due.IsZero() {
		return
	}
	f := n.fired(s.Name)
	f.log.Warn("schedule did not fire when it was due", zap.Time("due", due))
	f.tell(ctx, f.handle(ctx, s.Schedule, due, 0))
}

// fire acts on a schedule's firing, if no node has yet.
func (n *Node) fire(ctx context.Context, name string) {
	f := n.fired(name)
	f.tell(ctx, f.act(ctx))
}

func (n *Node) fired(name string) *fired {
	return &fired{node: n, store: n.cell.Schedules(), name: name, log: n.log.With(zap.String("schedule", name))}
}

// tell logs that the schedule has to be left to the next sweep.
func (f *fired) tell(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, jetstream.ErrHandled) {
		f.log.Warn("schedule could not be followed, yet", zap.Error(err))
	}
}

// fired is a schedule with a firing in the hand of one node. Any number of nodes may
// have it in hand: the outcome is recorded by one of them, and what all of them send is
// the same.
type fired struct {
	node   *Node
	store  *jetstream.Schedules
	name   string
	log    *zap.Logger
	last   schedule.Outcome
	number uint64 // of its record
}

// act handles the firing that is there, if there is one, and takes it away.
func (f *fired) act(ctx context.Context) error {
	firing, there, err := f.store.Firing(ctx, f.name)
	if err != nil || !there {
		return err
	}
	if firing.Err != nil {
		f.log.Error("firing of a schedule passed over", zap.Error(firing.Err))
		return f.store.Settle(ctx, f.name, firing.Seq)
	}
	s := firing.Schedule
	if err := f.handle(ctx, s, s.Timing.Due(firing.At), firing.Seq); err != nil {
		return err
	}
	if err := f.store.Settle(ctx, f.name, firing.Seq); err != nil {
		return err
	}
	if !s.Timing.At.IsZero() && f.last.Result == schedule.Started { // else its outcome is kept for readers
		return f.store.Forget(ctx, f.name, f.number)
	}
	return nil
}

// handle decides what becomes of a firing, records that, does it, and records that it is
// done: in this order, so that the next node knows how far this one got.
func (f *fired) handle(ctx context.Context, s schedule.Schedule, due time.Time, seq uint64) (err error) {
	if f.last, f.number, err = f.store.Outcome(ctx, f.name); err != nil && f.number == 0 {
		return err
	}
	if err != nil || !f.last.Created.Equal(s.Created) { // it is unreadable, or of one that had the name before
		f.last = schedule.Outcome{}
	}
	if err := f.finish(ctx, s); err != nil {
		return err
	}
	if f.last.Result != "" && s.Timing.Repeats(due, f.last.Due) {
		return nil
	}
	o, err := f.judge(ctx, s, due)
	if err != nil {
		return err
	}
	o.Created, o.Due, o.Fired, o.Done = s.Created, due, seq, o.Result != schedule.Started
	if f.number, err = f.store.Record(ctx, f.name, o, f.number); err != nil {
		return err
	}
	f.last = o
	if err := f.finish(ctx, s); err != nil {
		return err
	}
	f.log.Info("schedule fired", zap.Time("due", due), zap.String("result", string(o.Result)),
		zap.String("detail", o.Detail), logfield.Session(o.Session))
	return nil
}

// finish sends what the last outcome says was started, unless that is done.
func (f *fired) finish(ctx context.Context, s schedule.Schedule) error {
	if f.last.Result == "" || f.last.Done {
		return nil
	}
	for _, env := range s.Envelopes(f.last.Due) {
		if _, err := f.node.cell.Inbox().Send(ctx, env); err != nil {
			return err
		}
	}
	if err := f.node.runs.Wake(ctx, f.last.Session); err != nil {
		return err
	}
	f.last.Done = true
	number, err := f.store.Record(ctx, f.name, f.last, f.number)
	f.number = number
	return err
}

// judge says what becomes of a firing.
func (f *fired) judge(ctx context.Context, s schedule.Schedule, due time.Time) (schedule.Outcome, error) {
	o := schedule.Outcome{Result: schedule.Skipped, Session: f.last.Session}
	if late := time.Since(due); s.Late > 0 && late > s.Late {
		o.Detail = fmt.Sprintf("it came %v late", late.Round(time.Second))
		return o, nil
	}
	before := f.last.Session // the session that must not be at work
	if s.Session != "" {
		before = s.Session
		switch state, err := f.node.peek(ctx, s.Session); {
		case errors.Is(err, journal.ErrNotFound):
			o.Result, o.Detail = schedule.Failed, fmt.Sprintf("there is no session %s", s.Session)
			return o, nil
		case err != nil:
			return o, err
		case state.Closed:
			o.Result, o.Detail = schedule.Failed, fmt.Sprintf("session %s is closed", s.Session)
			return o, nil
		}
	}
	if s.Overlaps() == schedule.Skip && before != "" {
		busy, err := f.node.atWork(ctx, before)
		if err != nil {
			return o, err
		}
		if busy {
			o.Detail = fmt.Sprintf("session %s is still at work", before)
			return o, nil
		}
	}
	return schedule.Outcome{Result: schedule.Started, Session: s.SessionAt(due)}, nil
}

// atWork reports whether a session has something to do, or waits for a person's
// decision. One that is not there is at work while a command in its inbox may yet start it.
func (n *Node) atWork(ctx context.Context, s content.SessionID) (bool, error) {
	state, err := n.peek(ctx, s)
	if errors.Is(err, journal.ErrNotFound) {
		return n.cell.Inbox().HasAny(ctx, s)
	}
	if err != nil {
		return false, err
	}
	return !state.Closed && (loop.Waiting(state) != commands.WaitInput || len(state.Queue) > 0), nil
}

// peek reads how a session stands, without taking it. It returns journal.ErrNotFound
// for one that has no journal, or was deleted.
func (n *Node) peek(ctx context.Context, s content.SessionID) (*loop.State, error) {
	state, err := n.read(ctx, s)
	if err == nil && state.Deleted != nil {
		err = fmt.Errorf("%w: it was deleted", journal.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("look at session %s: %w", s, err)
	}
	return state, nil
}
