package actor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// brokenError says that our own code, or a host's, panicked for the session.
type brokenError struct {
	what  string
	value any
	stack []byte
}

// Error names what broke and how.
func (e *brokenError) Error() string { return fmt.Sprintf("%s broke: %v", e.what, e.value) }

// left sorts what ended a driver before it could park. One that drains returns its
// token, and so does one whose model only another node has, one that cannot tell what became of
// a task, and one that cannot tell what became of its last entry: the next driver reads it. One that could not read or
// write, or was told at once that its claim may have gone wrong, returns it for a while
// later. Nobody else has it, if the lease is fresh. One whose entry met another's, or
// whose lease was lost, leaves the token to whoever has it.
func (d *Driver) left(ctx context.Context, err error) (string, error) {
	d.lease.stop()
	unknown := errors.Is(err, journal.ErrUnknown)
	if ctx.Err() != nil && !unknown && !errors.Is(err, journal.ErrConflict) {
		err = context.Cause(ctx) // and not what that led to
	}
	d.fail(err)
	switch {
	case unknown && !d.serving && !errors.Is(err, context.DeadlineExceeded) && d.lease.fresh(): // else one driver after the other would at once
		return "fenced", errors.Join(fmt.Errorf("%w: %w", ErrFenced, err), d.token.ReleaseAfter(lostAgain))
	case unknown:
		return "fenced", errors.Join(fmt.Errorf("%w: %w", ErrFenced, err), d.handOver())
	case errors.Is(err, journal.ErrConflict):
		return "fenced", fmt.Errorf("%w: %w", ErrFenced, err)
	case errors.Is(err, ErrDrain):
		return d.drain(ctx)
	case errors.Is(err, errNotHere), errors.Is(err, errUnsettled):
		return "handed", d.handOver()
	case hopeless(err):
		if d.lease.fresh() {
			return "broken", errors.Join(err, d.token.ReleaseAfter(d.node.breaks.again(d.token)))
		}
		return "broken", err
	case !errors.Is(err, ErrLeaseLost) && d.lease.fresh():
		return "lost", errors.Join(err, d.token.ReleaseAfter(lostAgain))
	}
	return "lost", err
}

// lostAgain is how long after a driver could not go on another one tries. What it could
// not reach may be back by then.
const lostAgain = 3 * time.Second

// hopeless reports whether the session would end its next driver in the same way.
func hopeless(err error) bool {
	_, panicked := errors.AsType[*brokenError](err)
	return panicked || errors.Is(err, errUnmade) || errors.Is(err, events.ErrUnknownKind) || errors.Is(err, journal.ErrDamaged) || errors.Is(err, events.ErrBadEntry)
}

// drainTimeout bounds the parking of a session whose node drains.
const drainTimeout = 2 * time.Second

// drain parks a session that is idle already, which leaves no lease behind that
// could lapse, and hands any other over.
func (d *Driver) drain(ctx context.Context) (string, error) {
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

// handOver returns the token, so that another node goes on at once. Tasks that are
// on their way to a queue are waited for, so that the next driver finds them there;
// a model that is slow to stop is not.
func (d *Driver) handOver() error {
	d.performer.Stop(ErrDrain, func(id string) bool { return !isCall(id) })
	if !d.lease.fresh() {
		return ErrLeaseLost
	}
	if err := d.token.Release(); err != nil {
		return fmt.Errorf("hand over: %w", err)
	}
	return nil
}
