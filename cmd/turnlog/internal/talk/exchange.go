package talk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/session"
)

// exchange is one turn that is followed. One goroutine follows, continues and shows the
// turn. Signals, timers and questions come from other goroutines.
type exchange struct {
	*conversation

	begin   func(context.Context) (*session.Turn, error)
	timeout time.Duration // 0: none
	task    bool          // the input is a goal
	joined  bool          // the turn belongs to another client: only its entries are shown, and it is not cancelled

	attached *session.Session        // the session when the exchange began; nil: it did not exist
	end      context.CancelCauseFunc // cancels the turn
	stop     context.CancelFunc      // stops waiting for a driver to take the input
	printed  uint64                  // the last entry that was shown
	shown    atomic.Uint64           // the last entry whose events were all shown
	moved    chan struct{}           // has an element if shown has changed

	mu        sync.Mutex
	show      *screen
	turn      *session.Turn // nil: no driver has accepted the input
	cancelled bool
	left      error              // why the turn is not followed to its end
	asking    content.ApprovalID // the question on the screen, or ""
}

// follow shows the turn that x begins until it ends or waits for an approval. It prints
// the result and returns the turn's verdict.
func (v *conversation) follow(ctx context.Context, output string, x *exchange) error {
	x.conversation, x.attached, x.show, x.moved = v, v.session, newScreen(v.Terminal, output, v.ended), make(chan struct{}, 1)
	if v.session != nil {
		x.shown.Store(v.session.Head().Seq)
	}
	v.current = x
	over, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	asking, stop := context.WithTimeout(context.WithoutCancel(ctx), x.Patience.Answer)
	defer stop()
	x.end, x.stop = end, stop
	err := x.listen(ctx, func() error { return x.carry(asking, over) })
	x.mu.Lock() // a timer may have fired just now
	defer x.mu.Unlock()
	x.show.endLine()
	if x.left != nil {
		return x.left
	}
	out, err := x.outcome(ctx, err)
	if err != nil {
		return err
	}
	if err := out.print(ctx, output); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return out.verdict()
}

// listen runs do while it listens to signals and timers.
func (x *exchange) listen(ctx context.Context, do func() error) error {
	defer x.after(x.Patience.Nudge, x.nudge).Stop()
	if x.timeout > 0 {
		defer x.after(x.timeout, func() { x.overdue(ctx) }).Stop()
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	done := make(chan struct{})
	defer close(done)
	listening.Go(func() {
		for {
			select {
			case <-x.Signals:
				x.locked(func() { x.interrupted(ctx) })
			case <-ctx.Done():
				x.locked(func() { x.leave(context.Cause(ctx)) })
				return
			case <-done:
				return
			}
		}
	})
	return do()
}

// carry submits the input and follows its turn to the end. The end of over cancels the turn.
func (x *exchange) carry(asking, over context.Context) error {
	turn, err := x.begin(asking)
	if err != nil {
		return err
	}
	defer turn.Close()
	x.locked(func() {
		x.turn, x.show.fits = turn, x.session.Config().Output != nil
		if x.left != nil {
			turn.Close()
		}
	})
	for u, err := range turn.Updates(over) {
		if err != nil {
			return err
		}
		x.locked(func() {
			if x.left == nil {
				x.update(u)
			}
		})
	}
	return nil
}

func (x *exchange) locked(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f()
}

func (x *exchange) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { x.locked(f) })
}

func (x *exchange) nudge() {
	if x.turn == nil {
		x.show.note("no answer yet: is a driver-node running? (turnlog dev starts one)")
	}
}

func (x *exchange) update(u session.Update) {
	if r, ok := u.Event.(events.ApprovalResolved); ok && r.Approval == x.asking && !x.cancelled {
		x.show.note("%s", whyClosed(r))
	}
	if u.Record == nil || u.Own {
		x.show.event(u.Event)
	}
	if u.Record == nil {
		return
	}
	if seq := u.Record.Seq; seq > x.printed && (u.Own || !x.joined) {
		x.show.entry(*u.Record)
		x.printed = seq
	}
	if u.Last {
		x.shown.Store(u.Record.Seq)
		select {
		case x.moved <- struct{}{}:
		default:
		}
	}
}

// whyClosed says why a question on the screen needs no answer anymore.
func whyClosed(r events.ApprovalResolved) string {
	by := ""
	if who := r.Decider(); who != "" {
		by = " by " + who
	}
	switch r.Outcome {
	case events.Approved, events.Denied:
		return "decided elsewhere: " + string(r.Outcome) + by
	case events.Expired:
		return "the question expired"
	case events.ApprovalCancelled:
		return "cancelled elsewhere"
	case events.Moot:
	}
	return "no longer asked: another question about the call was decided"
}

// leave stops following the turn, which continues.
func (x *exchange) leave(why error) {
	x.left = cmp.Or(x.left, why)
	x.stop()
	if x.turn != nil {
		x.turn.Close()
	}
}

// interrupted cancels the turn, and leaves it on the second interrupt.
func (x *exchange) interrupted(ctx context.Context) {
	if x.cancelled {
		x.leave(session.ErrLeft)
	} else if x.cancel(ctx, "user_cancelled"); x.left == nil {
		x.show.note("cancelling; interrupt again to exit at once")
	}
}

// overdue cancels the turn, and leaves it if that does not end it in time.
func (x *exchange) overdue(ctx context.Context) {
	if x.cancelled {
		x.leave(fmt.Errorf("%w: it was cancelled but does not end", session.ErrLeft))
		return
	}
	x.after(x.Patience.Cancel, func() { x.overdue(ctx) })
	x.cancel(ctx, "deadline")
}

// cancel cancels the turn. A turn of another client continues, and so does input queued
// after one, since queued input cannot be withdrawn.
func (x *exchange) cancel(ctx context.Context, reason session.CancelReason) {
	var open content.TurnID
	if x.attached != nil {
		open = x.attached.OpenTurn()
	}
	switch {
	case x.joined && x.turn == nil && open == "":
		x.leave(unsettled(x.id))
	case x.joined:
		x.leave(fmt.Errorf("%w: turn %s continues in session %s", session.ErrLeft, open, x.id))
	case open != "" && (x.turn == nil || x.turn.ID() != open):
		x.leave(fmt.Errorf("%w: turn %s continues in session %s, and the input waits for its end", session.ErrLeft, open, x.id))
	default:
		x.cancelled = true
		x.end(reason)
		if x.turn == nil {
			go x.cancelLater(ctx, reason)
		}
	}
}

// cancelLater sends a cancel after input that no driver has accepted yet. Once the cancel is
// stored, leaving loses nothing.
func (x *exchange) cancelLater(ctx context.Context, reason session.CancelReason) {
	ctx, done := context.WithTimeout(ctx, x.Patience.Cancel)
	defer done()
	cancel := commands.Cancel{Scope: commands.ScopeTurn, Reason: string(reason)}
	if err := x.client.Send(ctx, x.id, ulid.Make().String(), cancel); err != nil {
		x.locked(func() {
			if x.turn == nil {
				x.leave(fmt.Errorf("%w: session %s may continue, since its cancel could not be sent: %w", session.ErrLeft, x.id, err))
			}
		})
		return
	}
	x.after(x.Patience.Leave, func() {
		if x.turn == nil {
			x.leave(fmt.Errorf("%w: no driver node has taken session %s: the input stays queued, followed by its cancel", session.ErrLeft, x.id))
		}
	})
}

// outcome returns the state of the turn once it has ended or waits for an approval.
func (x *exchange) outcome(ctx context.Context, err error) (*outcome, error) {
	o := &outcome{conversation: x.conversation, goal: x.task, err: err}
	if x.turn == nil {
		return nil, err
	}
	pending, held := errors.AsType[*session.ApprovalPendingError](err)
	invalid, ignored := errors.AsType[*session.InvalidStateError](err)
	switch r := x.turn.Result(); {
	case r != nil:
		o.turn, o.ended = *r, true
	case held:
		if o.held = pending.Approvals; pending.Partial != nil {
			o.turn = pending.Partial.Turn
		}
		return o, nil
	case errors.Is(err, client.ErrForbidden) && len(x.session.PendingApprovals()) > 0:
		o.held = x.session.PendingApprovals()
		return o, nil
	case ignored && invalid.Reason == commands.ReasonEmptyInput:
		return nil, app.Failed(cli.CodeFailed, "session %s ignored the input: it was handled before", x.id)
	case x.cancelled: // no node has cancelled it
		return nil, fmt.Errorf("%w: session %s: %w", session.ErrLeft, x.id, err)
	default:
		return nil, fmt.Errorf("session %s: %w", x.id, err)
	}
	if x.task {
		o.task, o.err = x.turn.WaitTask(ctx)
	}
	return o, nil
}
