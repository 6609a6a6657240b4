package actor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// park lets an idle session go, in the one order that loses no command: record it, empty the
// inbox, give the token up, see that it is gone, look once more.
func (d *driver) park(ctx context.Context) (bool, error) {
	if err := d.armDurable(ctx); err != nil {
		return false, err
	}
	err := d.decide(ctx, d.envelope("park/"+ulid.Make().String(), commands.Park{}))
	if _, refused := errors.AsType[*loop.Rejection](err); refused {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, d.letGo(ctx)
}

// letGo empties the inbox of what is handled, gives the token up, sees that it is gone, and
// wakes the session again if a command came meanwhile.
func (d *driver) letGo(ctx context.Context) error {
	inbox, s := d.node.cell.Inbox(), d.token.Session()
	if err := inbox.Purge(ctx, s, d.cursorList(), false); err != nil {
		return fmt.Errorf("purge inbox: %w", err)
	}
	d.lease.stop()
	if !d.lease.fresh() {
		return ErrLeaseLost
	}
	if err := d.token.Done(ctx); err != nil {
		return fmt.Errorf("acknowledge token: %w", err)
	}
	if err := d.token.WaitGone(ctx); err != nil {
		return fmt.Errorf("wait for the token to go: %w", err)
	}
	waiting, err := inbox.HasAny(ctx, s)
	if err == nil && waiting {
		err = d.node.runs.Wake(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("wake if a command came: %w", err)
	}
	return nil
}

// releaseAfter is how long after a driver failed another one may try. What it could not
// reach may be back by then.
const releaseAfter = 3 * time.Second

// left decides what becomes of the token when a driver ends before it could park:
//
//   - An uncertain append, a draining node, a model that only another node has, a task whose
//     dispatch is uncertain: the token is returned at once, and the next driver reads what
//     became of it. An uncertain claim returns it a little later, else one driver would
//     follow another at once.
//   - A conflict or a lost lease: another driver has the session. The token stays alone.
//   - Any other error: the token is returned for later, after longer and longer pauses if
//     the session would end its next driver in the same way.
func (d *driver) left(ctx context.Context, err error) (string, error) {
	d.lease.stop()
	unknown := errors.Is(err, journal.ErrUnknown)
	if ctx.Err() != nil && !unknown && !errors.Is(err, journal.ErrConflict) {
		err = context.Cause(ctx) // and not what that led to
	}
	d.fail(err)
	switch fresh := d.lease.fresh(); {
	case unknown && !d.serving && !errors.Is(err, context.DeadlineExceeded) && fresh:
		return "fenced", errors.Join(fmt.Errorf("%w: %w", ErrFenced, err), d.token.ReleaseAfter(releaseAfter))
	case unknown:
		return "fenced", errors.Join(fmt.Errorf("%w: %w", ErrFenced, err), d.handOver())
	case errors.Is(err, journal.ErrConflict):
		return "fenced", fmt.Errorf("%w: %w", ErrFenced, err)
	case errors.Is(err, ErrDrain):
		return d.drain(ctx)
	case errors.Is(err, errNotHere), errors.Is(err, errUnsettled):
		return "handed", d.handOver()
	case hopeless(err) && fresh:
		return "broken", errors.Join(err, d.token.ReleaseAfter(d.node.crashes.next(d.token)))
	case hopeless(err):
		return "broken", err
	case !errors.Is(err, ErrLeaseLost) && fresh:
		return "lost", errors.Join(err, d.token.ReleaseAfter(releaseAfter))
	}
	return "lost", err
}

// hopeless reports whether the session would end its next driver in the same way.
func hopeless(err error) bool {
	_, panicked := errors.AsType[*engine.PanicError](err)
	return panicked || errors.Is(err, errUnmade) || errors.Is(err, events.ErrUnknownKind) || errors.Is(err, journal.ErrDamaged) || errors.Is(err, events.ErrBadEntry)
}

// drainTimeout bounds the parking of a session whose node drains.
const drainTimeout = 2 * time.Second

// drain parks a session that is idle already, which leaves no lease behind that could lapse,
// and hands any other over.
func (d *driver) drain(ctx context.Context) (string, error) {
	if !d.serving || !d.atRest() {
		return "drained", d.handOver()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	parked, err := d.park(ctx)
	switch {
	case errors.Is(err, journal.ErrConflict):
		return "fenced", fmt.Errorf("%w: %w", ErrFenced, err)
	case err != nil || !parked:
		return "drained", d.handOver()
	}
	return "parked", nil
}

// handOver returns the token, so that another node goes on at once. It waits for tasks that
// are on their way to a queue, so that the next driver finds them there, but not for a model
// that is slow to stop.
func (d *driver) handOver() error {
	d.performer.Stop(ErrDrain, func(id string) bool { return !isCall(id) })
	if !d.lease.fresh() {
		return ErrLeaseLost
	}
	if err := d.token.Release(); err != nil {
		return fmt.Errorf("hand over: %w", err)
	}
	return nil
}

// lostWord is how long after a call's deadline its queue may take to say that the worker was
// lost: a lease, and the next worker's report. Until then the call may not merely have taken
// too long; a worker that lives says so itself.
const lostWord = 40 * time.Second

// due is when a timer is reported.
func due(e loop.ArmTimer) time.Time {
	if e.Kind == commands.TimerDeadline {
		return e.At.Std().Add(lostWord)
	}
	return e.At.Std()
}

// armDurable leaves the first timer of a parked session to the server, and removes those that
// the server may still have. The driver that this timer wakes holds all of them itself, and
// leaves the next one when it parks: so parking costs the same however many calls have
// deadlines.
func (d *driver) armDurable(ctx context.Context) error {
	timers, s := d.node.cell.Timers(), d.State.Session
	if d.armed {
		if err := timers.DisarmAll(ctx, s); err != nil {
			return fmt.Errorf("disarm timers: %w", err)
		}
	}
	first, found := firstTimer(loop.Pending(d.State))
	d.armed = found
	if !found {
		return nil
	}
	env := d.envelope(first.Identity(), commands.ReportTimer{Kind: first.Kind, ID: first.ID})
	env.By = "timer"
	if err := timers.Arm(ctx, s, first.Kind+"-"+first.ID, due(first), env); err != nil {
		return fmt.Errorf("arm timer %s: %w", first.Identity(), err)
	}
	return nil
}

// firstTimer is the one that is due first.
func firstTimer(owed []loop.Effect) (first loop.ArmTimer, found bool) {
	for _, e := range owed {
		if t, ok := e.(loop.ArmTimer); ok && (!found || due(t).Before(due(first))) {
			first, found = t, true
		}
	}
	return first, found
}
