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

// park releases an idle session, in the only order that loses no command: record that it parks, empty the
// inbox, give up the token, wait until it is gone, look at the inbox again.
func (d *driver) park(ctx context.Context) (how string, err error) {
	if err := d.armDurable(ctx); err != nil {
		return "", err
	}
	d.snapshots.Settle(ctx, d.State, d.Head)
	d.snapshots.Rest(true)
	what := commands.Park{Timer: d.armed, Calls: len(d.openCalls())}
	err = d.decide(ctx, d.envelope("park/"+ulid.Make().String(), what))
	if _, refused := errors.AsType[*commands.Rejection](err); refused {
		d.snapshots.Rest(false)
		return "", nil
	}
	if err != nil {
		return "", err
	}
	d.snapshots.Settle(ctx, d.State, d.Head)
	return leftParked, d.release(ctx)
}

// release purges the handled commands, gives up the token, waits until it is gone, and wakes the session
// again if a command arrived in the meantime.
func (d *driver) release(ctx context.Context) error {
	inbox, s := d.node.cell.Inbox(), d.token.Session()
	if err := d.inbox.Purge(ctx, false); err != nil {
		return fmt.Errorf("purge inbox: %w", err)
	}
	d.trial.Finish(ctx, true)
	d.lease.Stop()
	if !d.lease.Fresh() {
		return ErrLeaseLost
	}
	if err := d.token.Done(ctx); err != nil {
		return fmt.Errorf("acknowledge token: %w", err)
	}
	if err := d.token.WaitGone(ctx); err != nil {
		return fmt.Errorf("wait until the token is gone: %w", err)
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
//   - An uncertain append or dispatch, a draining node, a model that only another node has: the token is
//     returned at once, and the next driver reads the outcome. After an uncertain claim it is returned a
//     little later, or drivers would replace each other in a tight loop.
//   - A conflict or a lost lease: another driver has the session, so the token is left alone.
//   - Any other error: the token is returned later. If the session would end its next driver in the same way,
//     the pauses grow, or the session is set aside.
func (d *driver) left(ctx context.Context, err error) (string, error) {
	d.lease.Stop()
	unknown := errors.Is(err, journal.ErrUnknown)
	if ctx.Err() != nil && !unknown && !errors.Is(err, journal.ErrConflict) {
		err = context.Cause(ctx) // the cause, not one of its consequences
	}
	d.fail(err)
	if isPermanent(err) && !unknown {
		return d.broken(ctx, err)
	}
	d.trial.Finish(ctx, false)
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

// broken counts what ended the driver. A session that could not be read is tried again. One that panics a
// second time is set aside.
func (d *driver) broken(ctx context.Context, err error) (string, error) {
	setAside, wait := d.trial.Broke(ctx, err, !panicked(err), d.token.AckWait())
	switch {
	case !d.lease.Fresh():
		return leftBroken, err
	case setAside:
		return leftAside, errors.Join(err, d.giveUp(context.WithoutCancel(ctx)))
	}
	return leftBroken, errors.Join(err, d.token.ReleaseAfter(wait))
}

// giveUp gives up the token of a session that is set aside, and wakes the session if someone retried it in
// the meantime.
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
	if aside, err := d.node.trials.Aside(ctx, s); err != nil || aside {
		return err
	}
	return d.node.runs.Wake(ctx, s)
}

func panicked(err error) bool {
	_, is := errors.AsType[*engine.PanicError](err)
	return is
}

// isPermanent reports whether the session would end its next driver in the same way.
func isPermanent(err error) bool {
	return panicked(err) || errors.Is(err, errUnmade) || errors.Is(err, events.ErrUnknownKind) || errors.Is(err, journal.ErrDamaged) || errors.Is(err, events.ErrBadEntry)
}

// drainTimeout limits the time to park a session whose node drains.
const drainTimeout = 2 * time.Second

// drain parks a session that is already idle, so that no lease has to expire. It hands over any other
// session.
func (d *driver) drain(ctx context.Context) (string, error) {
	if !d.serving || !d.atRest() {
		return leftDrained, d.handOver()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	how, err := d.park(ctx)
	switch {
	case errors.Is(err, journal.ErrConflict):
		return leftFenced, fmt.Errorf("%w: %w", ErrFenced, err)
	case err != nil || how == "":
		return leftDrained, d.handOver()
	}
	return how, nil
}

// handOver returns the token, so that another node continues at once. It waits for tasks on their way to a
// queue, so that the next driver finds them there, but not for a model that is slow to stop.
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

// lostGrace is how long after a call's deadline the loss of its worker may be reported: a lease, and the time
// for the next worker's report. A live worker reports the deadline itself.
const lostGrace = 40 * time.Second

// due returns when to report a timer.
func due(e loop.ArmTimer) time.Time {
	if e.Kind == commands.TimerDeadline {
		return e.At.Std().Add(lostGrace)
	}
	return e.At.Std()
}

// armDurable has the server keep the first timer of a session that parks, and removes those that it may still
// hold. The driver that this timer wakes arms all of them, so the cost of parking does not grow with the
// number of deadlines.
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
