package talk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/session"
)

// exchange is one turn that is followed: one goroutine carries it to its end, another one
// shows it and listens to the user.
type exchange struct {
	*conversation

	begin   func(context.Context) (*session.Turn, error)
	timeout time.Duration // 0: none
	task    bool          // the input is a goal
	joined  bool          // the turn is of another client: only its entries are shown, and it is not cancelled

	show     *screen
	attached *session.Session // as the exchange began; nil: it did not exist

	calls chan func() error // for the goroutine that shows
	quit  chan struct{}     // it has returned
	done  chan struct{}     // the turn is over
	err   error             // why, when done is closed

	end       context.CancelCauseFunc // cancels the turn
	turn      *session.Turn           // nil: no driver has taken the input
	cancelled bool
	printed   uint64 // the last entry that was shown
	shown     uint64 // the last entry whose events were all shown
	question  *question
}

// follow shows the turn that x begins until its end, or until it waits for an approval. It
// prints the result and returns the turn's verdict.
func (v *conversation) follow(ctx context.Context, output string, x *exchange) error {
	x.conversation, x.show = v, newScreen(v.Terminal, output)
	x.calls, x.quit, x.done = make(chan func() error), make(chan struct{}), make(chan struct{})
	if x.attached = v.session; v.session != nil {
		x.shown = v.session.Head().Seq
	}
	v.current = x
	out, err := x.run(ctx)
	if err != nil {
		return err
	}
	if err := out.print(ctx, output); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return out.verdict()
}

// run carries the turn and shows it.
func (x *exchange) run(ctx context.Context) (*outcome, error) {
	over, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	x.end = end
	defer x.after(x.Patience.Nudge, x.nudge).Stop()
	if x.timeout > 0 {
		defer x.after(x.timeout, func() error { return x.overdue(ctx) }).Stop()
	}
	asking, stopAsking := context.WithTimeout(context.WithoutCancel(ctx), x.Patience.Answer)
	go x.carry(asking, over)
	err := x.watch(ctx)
	close(x.quit)
	stopAsking()
	if x.turn != nil {
		x.turn.Close()
	}
	<-x.done
	if err != nil {
		return nil, err
	}
	return x.outcome(ctx)
}

// carry submits the input and carries its turn to the end. The end of over cancels the turn.
func (x *exchange) carry(asking, over context.Context) {
	defer close(x.done)
	turn, err := x.begin(asking)
	if x.err = err; err != nil {
		return
	}
	if !x.do(func() error { return x.began(turn) }) {
		turn.Close()
		return
	}
	for u, err := range turn.Updates(over) {
		if x.err = err; err == nil && !x.do(func() error { return x.update(u) }) {
			turn.Close()
			return
		}
	}
}

// do has the goroutine that shows call f, and waits for that. It reports false if that
// goroutine has returned.
func (x *exchange) do(f func() error) bool {
	called := make(chan struct{})
	select {
	case x.calls <- func() error { defer close(called); return f() }:
		<-called
		return true
	case <-x.quit:
		return false
	}
}

// after has the goroutine that shows call f after a time.
func (x *exchange) after(d time.Duration, f func() error) *time.Timer {
	return time.AfterFunc(d, func() { x.do(f) })
}

// watch shows the turn and listens to the user, until the turn is over or the user leaves.
func (x *exchange) watch(ctx context.Context) error {
	for {
		answers := x.prompt()
		var err error
		select {
		case f := <-x.calls:
			err = f()
		case <-x.done:
			return nil
		case line := <-answers:
			x.answered(line)
		case <-x.Signals:
			err = x.interrupted(ctx)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (x *exchange) nudge() error {
	if x.turn == nil {
		x.show.note("no answer yet: is a driver-node running? (turnlog dev starts one)")
	}
	return nil
}

func (x *exchange) began(turn *session.Turn) error {
	x.turn = turn
	x.show.fits = x.session.Config().Output != nil
	return nil
}

func (x *exchange) update(u session.Update) error {
	if u.Record == nil || u.Own {
		x.show.event(u.Event)
	}
	if u.Record == nil {
		return nil
	}
	if seq := u.Record.Seq; seq > x.printed && (u.Own || !x.joined) {
		x.show.entry(*u.Record)
		x.printed = seq
	}
	if u.Last {
		x.shown = u.Record.Seq
	}
	return nil
}

// interrupted cancels the turn, and leaves it on the second interrupt.
func (x *exchange) interrupted(ctx context.Context) error {
	if x.cancelled {
		return session.ErrLeft
	}
	if err := x.cancel(ctx, "user_cancelled"); err != nil {
		return err
	}
	x.show.note("cancelling; interrupt again to leave at once")
	return nil
}

// overdue cancels the turn, and leaves it if that does not end it in time.
func (x *exchange) overdue(ctx context.Context) error {
	if x.cancelled {
		return fmt.Errorf("%w: it was cancelled but does not end", session.ErrLeft)
	}
	x.after(x.Patience.Cancel, func() error { return x.overdue(ctx) })
	return x.cancel(ctx, "deadline")
}

// cancel cancels the turn. It leaves the turn of another client, and input that is queued
// after one, since that cannot be withdrawn.
func (x *exchange) cancel(ctx context.Context, reason session.CancelReason) error {
	var open content.TurnID
	if x.attached != nil {
		open = x.attached.OpenTurn()
	}
	switch {
	case x.joined && x.turn == nil && open == "":
		return unsettled(x.id)
	case x.joined:
		return fmt.Errorf("%w: turn %s goes on in session %s", session.ErrLeft, open, x.id)
	case open != "" && (x.turn == nil || x.turn.ID() != open):
		return fmt.Errorf("%w: turn %s goes on, and the input waits for its end in session %s", session.ErrLeft, open, x.id)
	}
	x.unanswered()
	x.cancelled = true
	x.end(reason)
	if x.turn == nil {
		go x.cancelLater(ctx, reason)
	}
	return nil
}

// cancelLater sends a cancel after input that no driver has taken yet. Once it is durable,
// leaving loses nothing.
func (x *exchange) cancelLater(ctx context.Context, reason session.CancelReason) {
	cancel := commands.Cancel{Scope: commands.ScopeTurn, Reason: string(reason)}
	if err := x.client.Send(ctx, x.id, ulid.Make().String(), cancel); err != nil {
		return
	}
	x.after(x.Patience.Leave, func() error {
		if x.turn != nil {
			return nil
		}
		return fmt.Errorf("%w: no driver node has taken session %s: the input stays queued, followed by its cancel", session.ErrLeft, x.id)
	})
}

// outcome is how the turn stands now that it is over, or waits for an approval.
func (x *exchange) outcome(ctx context.Context) (*outcome, error) {
	o := &outcome{conversation: x.conversation, goal: x.task, err: x.err}
	if x.turn == nil {
		return nil, x.err
	}
	pending, held := errors.AsType[*session.ApprovalPendingError](x.err)
	invalid, ignored := errors.AsType[*session.InvalidStateError](x.err)
	switch r := x.turn.Result(); {
	case r != nil:
		o.turn, o.ended = *r, true
	case held:
		if o.held = pending.Approvals; pending.Partial != nil {
			o.turn = pending.Partial.Turn
		}
		return o, nil
	case ignored && invalid.Reason == "empty_input":
		return nil, app.Failed(cli.CodeFailed, "session %s ignored the input: it was handled before", x.id)
	default:
		return nil, fmt.Errorf("session %s: %w", x.id, x.err)
	}
	if x.task {
		o.task, o.err = x.turn.WaitTask(ctx)
	}
	return o, nil
}
