package talk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/schedule"
	"github.com/turnlog/turnlog/session"
)

// sent is what -o json prints for a command in the inbox.
type sent struct {
	Session content.SessionID `json:"session"`
	Command string            `json:"command"`
}

// Send returns the command that sends input.
func Send(process *app.App) *cobra.Command {
	a := talker{process}
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send SESSION TEXT...",
		Short: "Send input to a session of a deployment",
		Long: `Puts input into the session's inbox and prints its ID. The input is durable then, even if no
driver node is running. With --wait the command continues like "turnlog run" until the turn that
takes the input has ended.

--ask, --deny, --limit and --route apply to that turn; if the input joins an open turn, to the rest
of it, and --limit includes what the turn has already used. They only narrow: the stricter of the
flags and the session's settings applies, except that --route replaces the session's routes.
--allow is a decision for the rest of the session, like "turnlog approve --always", and needs the
same permission: calls of these tools run unless a policy asks or denies.

With --at or --in the input is sent later by a schedule, whose name is printed. "turnlog schedule
ls" lists it, "turnlog schedule rm" removes it. It needs the permissions of a scheduler, and
--allow cannot be scheduled.

--file attaches a file of up to 100 MiB, and may be repeated. Large files are stored with the
deployment and referenced in the journal; models see at most 32 MiB, and the names of the rest.

The text "-" is read from stdin.`,
		Example: `  turnlog send plan-7 "Also look at the tests"
  turnlog send plan-7 --in 2h "Has the build finished?"
  turnlog send plan-7 --on-busy interrupt --wait "Stop that, and start over"
  turnlog send plan-7 --deny 'shell_*' --limit rounds=5 "Only read, and list the files"
  turnlog send plan-7 --file plan.pdf "Does this still hold?"
  turnlog send plan-7 - < notes.txt`,
	}
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait for the turn's end and show it")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "with --wait, cancel the turn after this `time`; 0: never")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --wait, approve everything")
	f.rules.Register(cmd)
	f.later.Register(cmd)
	f.files.register(cmd)
	f.onBusy = cli.NewChoice("steer", "queue", "interrupt", "reject")
	f.onBusy.Register(cmd, "on-busy", "", "what to do while a turn of the session is open")
	f.output = cli.OutputFlag(cmd, "text", "json")
	f.remote = a.RemoteClient(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return ended(a.send(cmd, f, args[0], args[1:]))
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
	output  *cli.Choice
	remote  *app.Remote
}

func (a talker) send(cmd *cobra.Command, f sendFlags, name string, words []string) error {
	id, err := cli.ParseSession(name)
	if err != nil {
		return err
	}
	switch {
	case f.timeout < 0:
		return cli.Usage("--timeout %v: use a positive time, or 0 for none", f.timeout)
	case f.timeout != 0 && !f.wait:
		return cli.Usage("--timeout is for --wait")
	case f.yes && !f.wait:
		return cli.Usage("--yes is for --wait")
	}
	later, err := f.later.When(time.Now())
	switch {
	case err != nil:
		return err
	case !later.IsZero() && f.wait:
		return cli.Usage("--wait cannot be used with --at or --in")
	}
	with, err := f.files.look()
	if err != nil {
		return err
	}
	text, err := a.Prompt(cmd.Context(), words)
	if err != nil {
		return err
	}
	in := input{text: text, onBusy: flags.BusyPolicy(f.onBusy.String()), busy: cmd.Flags().Changed("on-busy"), rules: f.rules, timeout: f.timeout}
	d, err := f.remote.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer d.Close()
	v, err := a.converse(cmd.Context(), f.remote, d, id)
	switch {
	case err != nil:
		return err
	case v.session == nil:
		return app.NoSession(id, session.ErrNotFound)
	}
	defer v.close(cmd.Context())
	v.yes = f.yes
	room := int64(maxInline)
	if !later.IsZero() {
		room = 0 // schedules must be small
	}
	if in.files, err = v.encloseIn(cmd.Context(), with, room); err != nil {
		return err
	}
	if f.wait {
		return d.Advise(v.print(cmd.Context(), in, f.output.String()))
	}
	return d.Advise(a.Interruptible(cmd.Context(), func(ctx context.Context) error {
		if later.IsZero() {
			return v.leave(ctx, in, f.output.String())
		}
		return v.later(ctx, in, later, f.output.String())
	}))
}

// command returns the command that submits the input.
func (v *conversation) command(in input) commands.SubmitInput {
	config := v.session.Config()
	return commands.SubmitInput{Items: []content.Item{in.item()}, OnBusy: in.busyPolicy(config), Options: in.rules.Options(config)}
}

// leave sends the input, does not wait for an answer, and prints the ID of the command.
func (v *conversation) leave(ctx context.Context, in input, output string) error {
	if tools := in.rules.Allowed(v.session.Config()); len(tools) > 0 {
		grant := commands.AllowTools{Tools: tools, By: v.Person()}
		if err := v.client.Send(ctx, v.id, ulid.Make().String(), grant); err != nil {
			return forbidden(err)
		}
	}
	id := ulid.Make().String()
	if err := v.client.Send(ctx, v.id, id, v.command(in)); err != nil {
		return err
	}
	if output == "json" {
		return app.WriteJSON(v.Out, sent{Session: v.id, Command: id})
	}
	_, err := fmt.Fprintln(v.Out, id)
	return err
}

// later schedules the input and prints the name of the schedule.
func (v *conversation) later(ctx context.Context, in input, at time.Time, output string) error {
	if len(in.rules.Allowed(v.session.Config())) > 0 {
		return cli.Usage("--allow is a decision and cannot be scheduled: omit it, or run \"turnlog send --allow\" now")
	}
	p := schedule.Schedule{
		Name: "send-" + ulid.Make().String(), Timing: schedule.Timing{At: at}, Session: v.id,
		Overlap: schedule.Allow, By: v.Person(), Created: time.Now(), Commands: []commands.Command{v.command(in)},
	}
	err := v.client.Schedule(ctx, p, false)
	switch {
	case errors.Is(err, schedule.ErrBadSchedule):
		return cli.Usage("%w", err)
	case err != nil:
		return err
	case output == "json":
		return app.WriteJSON(v.Out, struct {
			Session  content.SessionID `json:"session"`
			Schedule string            `json:"schedule"`
			At       time.Time         `json:"at"`
		}{v.id, p.Name, at.UTC()})
	}
	_, err = fmt.Fprintln(v.Out, p.Name)
	return err
}

// forbidden explains why the server denied --allow.
func forbidden(err error) error {
	if errors.Is(err, client.ErrForbidden) {
		return fmt.Errorf("--allow in an existing session is a decision, for which this user lacks the permission: nothing was sent: %w", err)
	}
	return err
}
