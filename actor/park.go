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

// park releases an idle session, in the only order that loses no command: record it, empty the
// inbox, give the token up, wait until it is gone, look at the inbox again.
func (d *driver) park(ctx context.Context) (bool, error) {
	if err := d.armDurable(ctx); err != nil {
		return false, err
	}
	d.snapshots.Settle(ctx, d.State, d.Head)
	d.snapshots.Rest(true)
	what := commands.Park{Timer: d.armed, Calls: len(d.openCalls())}
	err := d.decide(ctx, d.envelope("park/"+ulid.Make().String(), what))
	if _, refused := errors.AsType[*commands.Rejection](err); refused {
		d.snapshots.Rest(false)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	d.snapshots.Settle(ctx, d.State, d.Head)
	return true, d.release(ctx)
}

// release purges the handled commands, gives the token up, waits until it is gone, and wakes the
// session again if a command arrived in the meantime.
func (d *driver) release(ctx context.Context) error {
	inbox, s := d.node.cell.Inbox(), d.token.Session()
	if err := d.inbox.Purge(ctx, false); err != nil {
		return fmt.Errorf("purge inbox: %w", err)
	}
	d.trial.finish(ctx, true)
	d.lease.Stop()
	if !d.lease.Fresh() {
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
		return fmt.Errorf("wake after a late command: %w", err)
	}
	return nil
}

// releaseAfter is the pause between a driver that failed and the next one.
const releaseAfter = 3 * time.Second

// left decides what happens to the token when a driver ends before it parks:
//
//   - An uncertain append, a draining node, a model that only another node has, a task whose
//     dispatch is uncertain: the token is returned at once, and the next driver reads the
//     outcome. After an uncertain claim it is returned a little later, or drivers would
//     follow each other in a tight loop.
//   - A conflict or a lost lease: another driver has the session, and the token is left alone.
//   - Any other error: the token is returned for later. If the session would end its next driver in
//     the same way, the pauses grow, or the session is set aside.
func (d *driver) left(ctx context.Context, err error) (string, error) {
	d.lease.Stop()
	unknown := errors.Is(err, journal.ErrUnknown)
	if ctx.Err() != nil && !unknown && !errors.Is(err, journal.ErrConflict) {
		err = context.Cause(ctx) // not one of its consequences
	}
	d.fail(err)
	if hopeless(err) && !unknown {
		return d.broken(ctx, err)
	}
	d.trial.finish(ctx, false)
	switch fresh := d.lease.Fresh(); {
	case unknown && !d.serving && !errors.Is(err, context.DeadlineExceeded) && fresh:
		return leftFenced, errors.Join(fmt.Errorf("%w: %w", ErrFenced, err), d.token.ReleaseAfter(releaseAfter))
	case unknown:
		return leftFenced, errors.Join(fmt.Errorf("%w: %w", ErrFenced, err), d.handOver())
	case errors.Is(err, journal.ErrConflict):
		return leftFenced, fmt.Errorf("%w: %w", ErrFenced, err)
	case errors.Is(err, ErrDrain):
		return d.drain(ctx)
	case errors.Is(err, errNotHere), errors.Is(err, errUnsettled):
		return leftHanded, d.handOver()
	case !errors.Is(err, ErrLeaseLost) && fresh:
		return leftLost, errors.Join(err, d.token.ReleaseAfter(releaseAfter))
	}
	return leftLost, err
}

// broken counts what ended the driver. A session that can only not be read here is tried again; one
// that panics is set aside the second time.
func (d *driver) broken(ctx context.Context, err error) (string, error) {
	setAside, wait := d.trial.broke(ctx, err, !panicked(err), d.token.AckWait())
	switch {
	case !d.lease.Fresh():
		return leftBroken, err
	case setAside:
		return leftAside, errors.Join(err, d.giveUp(context.WithoutCancel(ctx)))
	}
	return leftBroken, errors.Join(err, d.token.ReleaseAfter(wait))
}

// giveUp gives up the token of a session that is set aside, and wakes the session if it was retried
// meanwhile.
func (d *driver) giveUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if d.lease.Stop(); !d.lease.Fresh() {
		return ErrLeaseLost
	}
	s := d.token.Session()
	err := d.token.Done(ctx)
	if err == nil {
		err = d.token.WaitGone(ctx)
	}
	if err != nil {
		return err
	}
	if note, err := d.node.trials.Get(ctx, s); err != nil || note.Aside() {
		return err
	}
	return d.node.runs.Wake(ctx, s)
}

func panicked(err error) bool {
	_, is := errors.AsType[*engine.PanicError](err)
	return is
}

// hopeless reports whether the session would end its next driver in the same way.
func hopeless(err error) bool {
	return panicked(err) || errors.Is(err, errUnmade) || errors.Is(err, events.ErrUnknownKind) || errors.Is(err, journal.ErrDamaged) || errors.Is(err, events.ErrBadEntry)
}

// drainTimeout bounds the parking of a session whose node drains.
const drainTimeout = 2 * time.Second

// drain parks a session that is already idle, so that no lease has to expire, and hands any
// other over.
func (d *driver) drain(ctx context.Context) (string, error) {
	if !d.serving || !d.atRest() {
		return leftDrained, d.handOver()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	parked, err := d.park(ctx)
	switch {
	case errors.Is(err, journal.ErrConflict):
		return leftFenced, fmt.Errorf("%w: %w", ErrFenced, err)
	case err != nil || !parked:
		return leftDrained, d.handOver()
	}
	return leftParked, nil
}

// handOver returns the token, so that another node continues at once. It waits for tasks on
// their way to a queue, so that the next driver finds them there, but not for a model that is
// slow to stop.
func (d *driver) handOver() error {
	d.performer.Stop(ErrDrain, func(id string) bool { return !isCall(id) })
	if !d.lease.Fresh() {
		return ErrLeaseLost
	}
	if err := d.token.Release(); err != nil {
		return fmt.Errorf("hand over: %w", err)
	}
	return nil
}

// lostGrace is how long after a call's deadline the loss of its worker may be reported: a lease,
// and the next worker's report. A live worker reports the deadline itself.
const lostGrace = 40 * time.Second

// due returns when to report a timer.
func due(e loop.ArmTimer) time.Time {
	if e.Kind == commands.TimerDeadline {
		return e.At.Std().Add(lostGrace)
	}
	return e.At.Std()
}

// armDurable has the server keep the first timer of a session that parks, and removes those that the
// server may still hold. The driver that this timer wakes arms all of them itself, so the cost of
// parking does not grow with the number of deadlines.
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

// firstTimer returns the timer that is due first.
func firstTimer(owed []loop.Effect) (first loop.ArmTimer, found bool) {
	for _, e := range owed {
		if t, ok := e.(loop.ArmTimer); ok && (!found || due(t).Before(due(first))) {
			first, found = t, true
		}
	}
	return first, found
}
