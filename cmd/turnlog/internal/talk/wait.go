package talk

import (
	"context"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/session"
)

// input is what is submitted, and how.
type input struct {
	text    string
	task    *events.TaskSpec // nil: a text
	files   []content.Part   // attachments
	start   flags.Start
	onBusy  events.OnBusy
	busy    bool          // onBusy was given: it overrides the agent's
	rules   flags.Rules   // of this turn, in an existing session
	timeout time.Duration // 0: none
}

// fit returns the input for a session, whose agent may have a policy for busy turns.
func (in input) fit(session events.Config) input {
	if word := busyWord(session); word != "" && !in.busy {
		in.onBusy = flags.BusyPolicy(word)
	}
	return in
}

// ask returns the command that submits the input.
func (in input) ask(t *tracker) commands.Command {
	item := content.UserText(in.text)
	item.Parts = append(item.Parts, in.files...)
	switch {
	case in.task != nil && !t.opened: // with the options of the new session
		return commands.StartTask{Spec: *in.task, Files: in.files}
	case in.task != nil:
		return commands.StartTask{Spec: *in.task, Files: in.files, Options: in.rules.Options(t.config)}
	case !t.opened:
		return in.start.Open(item)
	}
	return commands.SubmitInput{Items: []content.Item{item}, OnBusy: in.onBusy, Options: in.rules.Options(t.config)}
}

// say submits input and follows its turn to the end. The first interrupt and the timeout
// cancel the turn; the second interrupt leaves it.
func (v *conversation) say(ctx context.Context, in input, show view) (*turnOutcome, error) {
	return v.wait(ctx, in.timeout, show, func(ctx context.Context, w *wait) {
		w.in = &in
		w.submit(ctx)
	})
}

// wait follows the tracked turn to its end.
func (v *conversation) wait(
	ctx context.Context, timeout time.Duration, show view, begin func(context.Context, *wait),
) (*turnOutcome, error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	w := &wait{conversation: v, show: show, failed: make(chan error, 1), stored: make(chan struct{}, 1)}
	w.startTimers(timeout)
	defer w.stopTimers()
	begin(ctx, w)
	for {
		out, err := w.stands(ctx)
		if out == nil && err == nil {
			out, err = w.next(ctx)
		}
		if out != nil || err != nil {
			return out, err
		}
	}
}

// wait is one turn that is followed.
type wait struct {
	*conversation
	in   *input // nil: of another client
	show view
	gate approver

	ask       string        // the ID of its command
	allowing  string        // the ID of the command for --allow; "": none
	failed    chan error    // errors of sending
	handled   bool          // the session ignored the input
	cancelled bool          // a cancel was sent
	stored    chan struct{} // signals that the cancel is durable

	nudge, answer, deadline, leave *time.Timer
}

func (w *wait) startTimers(timeout time.Duration) {
	w.nudge, w.answer = time.NewTimer(w.patience.Nudge), time.NewTimer(w.patience.Answer)
	w.deadline, w.leave = time.NewTimer(timeout), time.NewTimer(0)
	if timeout == 0 {
		w.deadline.Stop()
	}
	w.leave.Stop()
}

func (w *wait) stopTimers() {
	for _, t := range []*time.Timer{w.nudge, w.answer, w.deadline, w.leave} {
		t.Stop()
	}
}

// submit sends the input. Sending may block while servers don't answer, so it must not
// block the rest.
func (w *wait) submit(ctx context.Context) {
	w.ask = ulid.Make().String()
	in := w.in.fit(w.tracker.config)
	w.in = &in
	w.tracker.follow(w.ask, w.in.onBusy)
	c, session, all := w.client, w.id, w.in.delivery(&w.tracker, w.ask, w.people.name)
	w.allowing = ""
	if _, ok := all[0].cmd.(commands.AllowTools); ok {
		w.allowing = all[0].id
	}
	w.deliver(ctx, func(ctx context.Context) error { return all.send(ctx, c, session) })
}

func (w *wait) send(ctx context.Context, id string, cmd commands.Command) {
	c, session := w.client, w.id
	w.deliver(ctx, func(ctx context.Context) error { return c.Send(ctx, session, id, cmd) })
}

// deliver sends in the background.
func (w *wait) deliver(ctx context.Context, send func(context.Context) error) {
	failed := w.failed
	go func() { // ends with ctx
		if err := send(ctx); err != nil && ctx.Err() == nil {
			select {
			case failed <- err:
			default: // one error is enough
			}
		}
	}()
}

// stands returns the end of the turn, or its state if it is blocked by approvals that
// cannot be decided here. It returns nothing while the turn continues.
func (w *wait) stands(ctx context.Context) (*turnOutcome, error) {
	if w.tracker.accepted() {
		w.nudge.Stop()
		w.answer.Stop()
		w.leave.Stop()
	}
	if end := w.tracker.end; end != nil {
		return end, nil
	}
	if held := w.tracker.held(); len(held) > 0 && !w.cancelled && !w.decide(ctx, held) {
		return w.tracker.standing(), nil
	}
	return nil, nil
}

// next waits for one event.
func (w *wait) next(ctx context.Context) (*turnOutcome, error) {
	select {
	case n := <-w.entries:
		return nil, w.record(n)
	case ev := <-w.live:
		return nil, w.hear(ctx, ev)
	case t := <-w.gate.answers:
		w.answered(ctx, t)
	case <-w.signals:
		return nil, w.interrupted(ctx)
	case <-w.deadline.C:
		return nil, w.overdue(ctx)
	case <-w.nudge.C:
		w.show.note("no answer yet: is a driver-node running? (turnlog dev starts one)")
	case <-w.answer.C:
		return nil, w.unanswered()
	case <-w.stored:
		if !w.tracker.accepted() {
			w.leave.Reset(w.patience.Leave)
		}
	case <-w.leave.C:
		return nil, fmt.Errorf("%w: no driver node has taken session %s: the input stays queued, followed by its cancel", errLeft, w.id)
	case err := <-w.failed:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return nil, nil
}

func (w *wait) unanswered() error {
	if w.handled {
		return app.Failed(cli.CodeFailed, "session %s ignored the input: it was handled before", w.id)
	}
	return fmt.Errorf("session %s: %w within %v: start a driver-node; the input waits in the inbox",
		w.id, session.ErrNoAnswer, w.patience.Answer)
}

func (w *wait) record(n news) error {
	if n.err != nil {
		return fmt.Errorf("session %s: %w", w.id, n.err)
	}
	w.take(n.rec, w.show)
	return nil
}

// hear shows live events and handles the refusal of our command.
func (w *wait) hear(ctx context.Context, ev events.Event) error {
	r, ok := ev.(events.Refused)
	if !ok {
		w.show.live(ev)
		return nil
	}
	if r.Command == w.allowing && r.Reason != "" {
		return app.Failed(cli.CodeFailed, "session %s: --allow: %s", w.id, r.Detail)
	}
	if r.Command != w.ask || w.tracker.accepted() {
		return nil
	}
	switch r.Reason {
	case "": // it was ignored; if it was handled before, its entry will arrive
		w.handled = true
		w.answer.Reset(w.patience.Cancel)
		return nil
	case loop.ReasonSessionExists: // another client has just started it: use that session
		w.tracker.opened = true
		w.submit(ctx)
		return nil
	case loop.ReasonBusy:
		if w.in != nil && w.in.task != nil {
			return app.Failed(cli.CodeFailed, "session %s is busy with another turn or task: try again later", w.id)
		}
		return app.Failed(cli.CodeFailed, "session %s is busy with another turn: try again later, or use --on-busy queue", w.id)
	case loop.ReasonDeleted:
		return app.Failed(cli.CodeFailed, "%s", r.Detail)
	case loop.ReasonClosed:
		return app.Failed(cli.CodeFailed, "session %s is closed: start another one", w.id)
	}
	return app.Failed(cli.CodeFailed, "session %s: %w", w.id, &session.InvalidStateError{Reason: r.Reason, Detail: r.Detail})
}

// interrupted cancels the turn, and leaves on the second interrupt.
func (w *wait) interrupted(ctx context.Context) error {
	if w.cancelled {
		return errLeft
	}
	if err := w.cancel(ctx, ""); err != nil {
		return err
	}
	w.show.note("cancelling; interrupt again to leave at once")
	return nil
}

// overdue cancels the turn, and leaves if that does not end it in time.
func (w *wait) overdue(ctx context.Context) error {
	if w.cancelled {
		return fmt.Errorf("%w: it was cancelled but does not end", errLeft)
	}
	w.deadline.Reset(w.patience.Cancel)
	return w.cancel(ctx, "deadline")
}

// cancel cancels the turn. Input that is queued after the turn of another client cannot be
// withdrawn, and that turn is not ours to cancel. If no node takes the input, none takes
// the cancel either, so waiting is pointless.
func (w *wait) cancel(ctx context.Context, reason string) error {
	switch {
	case w.in == nil:
		return fmt.Errorf("%w: turn %s goes on in session %s", errLeft, w.tracker.turn, w.id)
	case w.tracker.turn != "" && !w.tracker.mine():
		return fmt.Errorf("%w: turn %s goes on, and the input waits behind it in session %s",
			errLeft, w.tracker.turn, w.id)
	}
	w.cancelled = true
	c, session, stored := w.client, w.id, w.stored
	w.deliver(ctx, func(ctx context.Context) error {
		err := c.Send(ctx, session, ulid.Make().String(), commands.Cancel{Scope: commands.ScopeTurn, Reason: reason})
		if err == nil {
			select {
			case stored <- struct{}{}: // now leaving loses nothing
			default:
			}
		}
		return err
	})
	return nil
}

// busyWord is what the agent of a session does with input while a turn is open; "": it
// does not say.
func busyWord(c events.Config) string {
	d, err := agentfile.Recorded(c)
	if err != nil || d == nil {
		return ""
	}
	return d.OnBusy
}
