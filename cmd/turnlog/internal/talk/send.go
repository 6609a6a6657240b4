package talk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/session"
)

// Send returns the command that sends input.
func Send(a *app.App) *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send SESSION TEXT...",
		Short: "Send input to a session of a deployment",
		Long: `Stores input in the session's inbox and prints the session's ID, for "turnlog wait". From then on the
input is durable, even if no driver node is running. With --on-busy reject it waits for a driver
node; if the node rejects the input, the exit code is 1. With --wait the command continues like
"turnlog run" until the turn that takes the input has ended.

-o json also prints the ID of the command, which is the cause of the journal's entry about it.

--ask, --deny, --limit and --route apply to that turn. If the input joins an open turn, they apply to
the rest of it, and --limit includes what the turn has already used. They only restrict: the stricter
of the flags and the session's settings applies, except that --route replaces the session's routes.
--allow lasts for the rest of the session, like "turnlog approve --always", and needs the same
permission: calls of these tools run unless a policy requires approval or denies them.

With --at or --in, a schedule sends the input later, and the command prints its name. "turnlog
schedule ls" lists it, "turnlog schedule rm" removes it. This needs the permissions of a scheduler;
--allow cannot be scheduled.

--file attaches a file of up to 100 MiB; repeat it for more. Large files are stored in the
deployment and referenced in the journal. Models see at most 32 MiB, and only the names of the
other files.

With "-" as TEXT, the input is read from stdin.`,
		Example: `  turnlog send plan-7 "Also look at the tests"
  turnlog send plan-7 --in 2h "Has the build finished?"
  turnlog send plan-7 --on-busy interrupt --wait "Stop that, and start over"
  turnlog send plan-7 --deny 'shell_*' --limit rounds=5 "Only read, and list the files"
  turnlog send plan-7 --file plan.pdf "Does this still hold?"
  turnlog send plan-7 - < notes.txt`,
	}
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until the turn ends, and print its replies")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "with --wait, cancel the turn after this `time`; 0: never")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --wait, approve everything")
	f.rules.Register(cmd)
	f.later.Register(cmd)
	f.files.register(cmd)
	f.onBusy = cli.NewChoice("steer", "queue", "interrupt", "reject")
	f.onBusy.Register(cmd, "on-busy", "", "what to do while a turn of the session is open")
	cmd.MarkFlagsMutuallyExclusive("wait", "at", "in")
	f.output = a.Output(cmd)
	f.remote = a.RemoteClient(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := cli.ParseSession(args[0])
		if err != nil {
			return err
		}
		f.busy = cmd.Flags().Changed("on-busy")
		return f.send(cmd.Context(), id, args[1:])
	}
	return cmd
}

// sendFlags are the flags of the command send.
type sendFlags struct {
	wait    bool
	yes     bool
	timeout time.Duration
	rules   flags.Rules
	later   flags.Timing
	files   fileFlag
	onBusy  *cli.Choice
	busy    bool // onBusy was given
	output  app.Output
	remote  *app.Remote
}

func (f *sendFlags) send(ctx context.Context, id content.SessionID, words []string) error {
	later, err := f.later.When(time.Now())
	switch {
	case err != nil:
		return err
	case f.timeout < 0:
		return cli.Usage("--timeout %v: use a positive time, or 0 for none", f.timeout)
	case f.timeout != 0 && !f.wait:
		return cli.Usage("--timeout is for --wait")
	case f.yes && !f.wait:
		return cli.Usage("--yes is for --wait")
	}
	in, err := f.files.input(ctx, f.remote.App, words)
	if err != nil {
		return err
	}
	in.onBusy, in.busy, in.rules, in.timeout = flags.BusyPolicy(f.onBusy.String()), f.busy, f.rules, f.timeout
	return existing(ctx, f.remote, id, func(ctx context.Context, v *conversation) error {
		v.yes = f.yes
		if f.wait {
			return ended(v.print(ctx, in, f.output.String()))
		}
		if !later.IsZero() {
			return v.later(ctx, in, later, f.output)
		}
		return v.leave(ctx, in, f.output)
	})
}

// command returns the command that submits the input.
func (v *conversation) command(in input) commands.SubmitInput {
	config := v.session.Config()
	return commands.SubmitInput{Items: []content.Item{in.item()}, OnBusy: in.busyPolicy(config), Options: in.rules.Options(config)}
}

// leave sends the input and prints the session's ID, without waiting for an answer.
func (v *conversation) leave(ctx context.Context, in input, output app.Output) error {
	if err := v.attachFiles(ctx, &in, maxInline); err != nil {
		return err
	}
	id := ulid.Make().String()
	err := v.Interruptible(ctx, func(ctx context.Context) error {
		if tools := in.rules.Allowed(v.session.Config()); len(tools) > 0 {
			grant := commands.AllowTools{Tools: tools}
			if err := v.client.Send(ctx, v.id, ulid.Make().String(), grant); err != nil {
				return forbidden(err)
			}
		}
		if c := v.command(in); c.OnBusy != events.Reject {
			return v.client.Send(ctx, v.id, id, c)
		}
		return v.offer(ctx, in, id)
	})
	if err != nil {
		return err
	}
	if v.IsOut {
		v.Hint("\"turnlog wait %s\" shows the answer", v.id)
	}
	return output.Print(struct {
		Session content.SessionID `json:"session"`
		Command string            `json:"command"`
	}{v.id, id}, printLine(string(v.id)))
}

// offer submits input that a busy session refuses, and waits until a driver has accepted or refused it.
func (v *conversation) offer(ctx context.Context, in input, id string) error {
	ctx, done := context.WithTimeout(ctx, v.Patience.Answer)
	defer done()
	c := v.command(in)
	turn, err := v.session.Submit(ctx, session.Input{ID: id, Items: c.Items, OnBusy: c.OnBusy, Options: c.Options})
	if err == nil {
		turn.Close()
	}
	return v.refused(err, in)
}

// later schedules the input and prints the name of the schedule. Its files are stored with
// the deployment, since schedules must be small.
func (v *conversation) later(ctx context.Context, in input, at time.Time, output app.Output) error {
	if err := v.attachFiles(ctx, &in, 0); err != nil {
		return err
	}
	if len(in.rules.Allowed(v.session.Config())) > 0 {
		return cli.Usage("--allow is a decision and cannot be scheduled: omit it, or run \"turnlog send --allow\" now")
	}
	p := schedule.Schedule{
		Name: "send-" + ulid.Make().String(), Timing: schedule.Timing{At: at}, Session: v.id,
		Overlap: schedule.Allow, By: v.client.Name(), Created: time.Now(), Commands: []commands.Command{v.command(in)},
	}
	err := v.Interruptible(ctx, func(ctx context.Context) error { return v.client.Schedule(ctx, p, false) })
	switch {
	case errors.Is(err, schedule.ErrBadSchedule):
		return cli.Usage("%w", err)
	case err != nil:
		return err
	}
	return output.Print(struct {
		Session  content.SessionID `json:"session"`
		Schedule string            `json:"schedule"`
		At       time.Time         `json:"at"`
	}{v.id, p.Name, at.UTC()}, printLine(p.Name))
}

func printLine(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		return err
	}
}

// forbidden explains why the server denied --allow.
func forbidden(err error) error {
	if errors.Is(err, client.ErrForbidden) {
		return fmt.Errorf("--allow in an existing session is a decision, for which this user lacks the permission: nothing was sent: %w", err)
	}
	return err
}
