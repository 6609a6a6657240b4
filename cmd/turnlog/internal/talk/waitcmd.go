package talk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// awaitFlags are the flags of the command wait.
type awaitFlags struct {
	timeout time.Duration
	output  *cli.Choice
	remote  *app.Remote
}

// Wait returns the command that waits for a turn.
func Wait(process *app.App) *cobra.Command {
	a := talker{process}
	var f awaitFlags
	cmd := &cobra.Command{
		Use:   "wait SESSION",
		Short: "Wait for the end of a session's turn, or for an approval",
		Long: `Waits until the open turn of a session ends or needs approval, and prints what "turnlog run" prints,
with the same exit codes. Pending input is waited for; if there is nothing to wait for, the last
turn's end is printed. A user without the permission to read inboxes, such as a client, has to ask
the session about pending input, which needs a driver node.

An interrupt, or the end of --timeout, ends the command with 4; the turn continues.`,
		Example: `  turnlog wait plan-7
  turnlog send plan-7 "Also look at the tests" && turnlog wait plan-7 -o json
  turnlog approve plan-7 call_1_1 && turnlog wait plan-7`,
	}
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "stop waiting after this `time`; 0: never")
	f.output = cli.OutputFlag(cmd, "text", "json", "jsonl")
	f.remote = a.Remote(cmd, admin.RoleClient)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return ended(a.await(cmd, f, args[0]))
	}
	return cmd
}

func (a talker) await(cmd *cobra.Command, f awaitFlags, session string) error {
	id, err := content.ParseSessionID(session)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if f.timeout < 0 {
		return cli.Usage("--timeout %v: use a positive time, or 0 for none", f.timeout)
	}
	d, err := f.remote.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer d.Close()
	ctx, stop := d.Lasting(cmd.Context())
	defer stop()
	c, err := f.remote.Client(d, "turnlog-wait")
	if err != nil {
		return err
	}
	v, err := a.attach(ctx, d.Cell, c, id)
	if err != nil {
		return err
	}
	defer v.close()
	now, err := v.target(ctx, d.Inbox())
	if _, denied := jetstream.Denied(err); denied {
		if err = a.Interruptible(ctx, func(ctx context.Context) error { return v.passed(ctx, f.timeout) }); err == nil {
			now, err = v.target(ctx, nil)
		}
	}
	if err != nil {
		return app.NoSession(id, err)
	}
	return a.report(f.output.String(), func(show view) (*turnOutcome, error) {
		show = onlyMine{show, &v.tracker}
		if err := v.catchUp(ctx, now, show); err != nil {
			return nil, fmt.Errorf("session %s: %w", id, err)
		}
		return v.wait(ctx, f.timeout, show, func(_ context.Context, w *wait) { w.ask = v.tracker.ask })
	}, v.turnEnd)
}

// onlyMine shows only entries of the awaited turn.
type onlyMine struct {
	view

	tracker *tracker
}

func (o onlyMine) entry(rec journal.Record) {
	if o.tracker.mine() || o.tracker.end != nil {
		o.view.entry(rec)
	}
}

// target tracks the turn that is open or pending, or else the last one, and returns the
// present end of the journal. It returns an error if there never was a turn. Without an
// inbox it ignores pending input.
func (v *conversation) target(ctx context.Context, inbox *jetstream.Inbox) (now uint64, err error) {
	state, head, err := v.client.Read(ctx, v.id)
	if err != nil {
		return 0, err
	}
	t := &v.tracker
	switch {
	case state.Deleted != nil:
		return 0, &session.DeletedError{Session: v.id, Deletion: *state.Deleted}
	case state.Turn != nil:
		t.adopt(state.Turn.ID)
		return head.Seq, nil
	case loop.Waiting(state) != commands.WaitInput:
		t.adopt(content.TurnIDFor(state.Turns + 1))
		return head.Seq, nil
	}
	if inbox != nil {
		for m, err := range inbox.All(ctx, v.id, state.Cursors) {
			if err != nil {
				return 0, err
			}
			if c, ok := m.Envelope.Command.(commands.SubmitInput); ok {
				t.follow(m.Envelope.ID, c.OnBusy)
				return head.Seq, nil
			}
		}
	}
	if state.Last == nil {
		return 0, app.Failed(cli.CodeFailed, "session %s has had no turn yet: \"turnlog send %s\" starts one", v.id, v.id)
	}
	t.adopt(state.Last.Turn)
	return head.Seq, nil
}

// passed waits until the session has handled what clients sent before, for users without
// the permission to read inboxes: it sends a command about a call that does not exist,
// which is refused when all earlier commands are handled.
func (v *conversation) passed(ctx context.Context, timeout time.Duration) error {
	s, err := v.client.Attach(ctx, v.id)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(ctx) }()
	patience := v.patience.Answer
	if timeout > 0 {
		patience = min(patience, timeout)
	}
	ctx, done := context.WithTimeoutCause(ctx, patience, errLeft)
	defer done()
	err = s.Calls().Detach(ctx, content.CallID(ulid.Make().String()))
	_, refused := errors.AsType[*session.InvalidStateError](err)
	switch {
	case refused:
		return nil
	case ctx.Err() != nil: // possibly while it was sent
		return fmt.Errorf("%w: no driver node has handled what was sent to session %s, if anything was", context.Cause(ctx), v.id)
	}
	return err
}
