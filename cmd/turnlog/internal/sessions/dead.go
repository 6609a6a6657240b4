package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
)

// Dead returns the command about dead letters with its subcommands.
func Dead(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "Look at calls whose workers were lost, and run them again",
		Long: `A call is a dead letter when whoever ran its last attempt was lost, and its outcome is unknown:
the model was told so, and the turn went on. A call of a tool that declares that it may run twice
is tried again first, three times by default; any other is a dead letter at its first loss.

Each dead letter is in its session's journal, and so is what becomes of it, when, and by whom.
A session that is closed or deleted has none.`,
		Example: `  turnlog dead ls
  turnlog dead show plan-7 call_1_1
  turnlog dead retry plan-7 call_1_1 --reason "the disk was full"
  turnlog dead drop plan-7 call_1_2 --reason "done by hand"`,
	}
	cmd.AddCommand(newDeadLsCommand(a), newDeadShowCommand(a), newDeadRetryCommand(a), newDeadDropCommand(a))
	return cmd
}

func newDeadLsCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [SESSION]",
		Aliases: []string{"list"},
		Short:   "List the dead letters, of one session or of all",
		Long: `Lists the dead letters, one a line. Without a session it reads the journals of those that the
deployment has on its list. Sessions that a release before this one left with a dead letter are on
that list once they have been woken; --all reads the journals of all sessions instead.`,
		Example: `  turnlog dead ls
  turnlog dead ls plan-7
  turnlog dead ls -o json | jq -r '.[] | "\(.session) \(.call)"'`,
	}
	var everywhere bool
	cmd.Flags().BoolVar(&everywhere, "all", false, "read the journals of all sessions")
	output := cli.OutputFlag(cmd, "text", "json")
	r := a.Remote(cmd, jetstream.RoleApprover)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if everywhere && len(args) > 0 {
			return cli.Usage("--all and a session at once: give one of them")
		}
		return r.Do(cmd.Context(), func(ctx context.Context, d *cli.Cell, c *client.Client) error {
			which := c.Dead
			if everywhere {
				which = c.Sessions
			}
			all, err := deadLetters(a, ctx, d, which, args)
			if err != nil {
				return err
			}
			if output.String() == "json" {
				return app.WriteJSON(a.Out, all)
			}
			return printDead(a.Out, all)
		})
	}
	return cmd
}

// deadLetters reads the journal of the named session, or of those that are listed. Of
// these, what cannot be read is only complained about.
func deadLetters(
	a *app.App, ctx context.Context, d *cli.Cell, list func(context.Context) ([]content.SessionID, error), args []string,
) ([]*deadLetter, error) {
	all := []*deadLetter{}
	if len(args) > 0 {
		id, err := cli.ParseSession(args[0])
		if err != nil {
			return nil, err
		}
		b, err := readDead(ctx, d.Cell, id)
		if err != nil {
			return nil, err
		}
		return append(all, b.dead()...), nil
	}
	ids, err := list(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		b, err := readDead(ctx, d.Cell, id)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if _, deleted := errors.AsType[*client.DeletedError](err); deleted {
			continue // "turnlog gc" takes it off the list
		}
		if err != nil {
			a.Complain(err)
			continue
		}
		all = append(all, b.dead()...)
	}
	return all, nil
}

func printDead(w io.Writer, all []*deadLetter) error {
	if len(all) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "SESSION\tCALL\tTOOL\tEFFECTS\tATTEMPTS\tSINCE\tWHY")
	for _, c := range all {
		last := c.Lost[len(c.Lost)-1]
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", c.Session, c.Call, render.Safe(c.Tool), c.Effects, c.Attempts, last.At, render.Style{}.Line(last.Reason))
	}
	return t.Flush()
}

func newDeadShowCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show SESSION CALL",
		Short: "Tell what became of a call that lost its workers",
		Long: `Tells of one call that lost workers, also if it is no dead letter any more: what it was to do, which
attempts were lost, when and why, and what people did about it.`,
		Example: `  turnlog dead show plan-7 call_1_1
  turnlog dead show plan-7 call_1_1 -o json | jq .input`,
	}
	output := cli.OutputFlag(cmd, "text", "json")
	r := a.Remote(cmd, jetstream.RoleApprover)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, call, err := deadArgs(args)
		if err != nil {
			return err
		}
		return r.Do(cmd.Context(), func(ctx context.Context, d *cli.Cell, _ *client.Client) error {
			b, err := readDead(ctx, d.Cell, id)
			if err != nil {
				return err
			}
			c, err := b.find(call)
			if err != nil {
				return err
			}
			if output.String() == "json" {
				return app.WriteJSON(a.Out, c)
			}
			return printDeadLetter(a.Out, c)
		})
	}
	return cmd
}

func deadArgs(args []string) (content.SessionID, content.CallID, error) {
	id, err := cli.ParseSession(args[0])
	if err != nil {
		return "", "", err
	}
	call, err := app.ParseCall(args[1])
	return id, call, err
}

func printDeadLetter(w io.Writer, c *deadLetter) error {
	line := render.Style{}.Line
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { _, _ = fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("session", "%s", c.Session)
	row("call", "%s", c.Call)
	row("tool", "%s", render.Safe(c.Tool))
	row("input", "%s", line(string(c.Input)))
	row("state", "%s", c.State)
	row("effects", "%s", c.Effects)
	row("queue", "%s", c.Queue)
	row("place", "%s, round %d", c.Turn, c.Round)
	row("attempts", "%d", c.Attempts)
	for _, l := range c.Lost {
		row("lost", "%s, attempt %d: %s", l.At, l.Attempt, line(l.Reason))
	}
	for _, s := range c.Settled {
		text := s.At.String() + ", by " + render.Safe(s.By)
		if s.Reason != "" {
			text += ": " + line(s.Reason)
		}
		row(string(s.Outcome), "%s", text)
	}
	row("result", "%s", c.Result)
	return t.Flush()
}

func newDeadRetryCommand(a *app.App) *cobra.Command {
	v := commands.SettleDeadLetter{Retry: true}
	cmd := &cobra.Command{
		Use:   "retry SESSION CALL",
		Short: "Run a dead letter once more",
		Long: `Has the call dispatched once more, as the next attempt, and waits until that is recorded. The
session need not wait for it: its outcome comes as a notification, which wakes the session. If its
workers are lost again, it is a dead letter again.

Of a tool that does not declare that it may run twice, nobody knows what the lost attempt did. Find
out first; then --may-repeat says that you accept that it may be done twice.`,
		Example: `  turnlog dead retry plan-7 call_1_1
  turnlog dead retry plan-7 call_1_2 --may-repeat --reason "the bank has no such payment"`,
	}
	cmd.Flags().BoolVar(&v.MayRepeat, "may-repeat", false, "run it although what it did may be done twice")
	cmd.Flags().StringVar(&v.Reason, "reason", "", "`text` that is recorded with the decision")
	r := a.Remote(cmd, jetstream.RoleApprover)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return settle(r, cmd.Context(), args, v, "runs again") }
	return cmd
}

func newDeadDropCommand(a *app.App) *cobra.Command {
	var v commands.SettleDeadLetter
	cmd := &cobra.Command{
		Use:   "drop SESSION CALL",
		Short: "Take a dead letter off the list",
		Long: `Records that nobody will run the call again, and takes it off the list. Its outcome stays unknown;
should the worker that was lost come back with one, it is recorded all the same if it is the first.`,
		Example: `  turnlog dead drop plan-7 call_1_1 --reason "done by hand"`,
	}
	cmd.Flags().StringVar(&v.Reason, "reason", "", "`text` that is recorded with the decision")
	r := a.Remote(cmd, jetstream.RoleApprover)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return settle(r, cmd.Context(), args, v, "is dropped") }
	return cmd
}

// settle decides about a dead letter.
func settle(r *app.Remote, ctx context.Context, args []string, v commands.SettleDeadLetter, done string) error {
	id, call, err := deadArgs(args)
	if err := cmp.Or(err, checkReason(v.Reason)); err != nil {
		return err
	}
	return r.Do(ctx, func(ctx context.Context, d *cli.Cell, c *client.Client) error {
		b, err := readDead(ctx, d.Cell, id)
		if err != nil {
			return err
		}
		letter, err := b.find(call)
		if err != nil {
			return err
		}
		if v.Retry && !v.MayRepeat && letter.State == "dead" && letter.Effects == effectsName(content.Once) {
			return fmt.Errorf("%s (call %s) may have taken effect: look, and if it may be done twice, say --may-repeat", letter.Tool, call)
		}
		v.Call, v.By = call, r.App.Person()
		err = r.Ask(ctx, c, id, func(ctx context.Context, s *client.Session) error { return s.Ask(ctx, v) })
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(r.App.Out, "%s (call %s) %s\n", render.Safe(letter.Tool), call, done)
		return err
	})
}
