package actor

import (
	"context"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/loop"
)

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
