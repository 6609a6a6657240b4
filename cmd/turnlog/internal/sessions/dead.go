package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/session"
)

// Dead returns the command about dead letters with its subcommands.
func Dead(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List, retry and drop dead letters: lost calls, and sessions that crashed nodes",
		Long: `A call becomes a dead letter when the worker of its last attempt was lost. Its outcome is unknown; the
model was told so, and the turn continued. A call of a tool that declares itself safe to repeat is retried
first, three times by default. Any other call becomes a dead letter when its worker is lost the first time.

The session's journal records each dead letter, and who retried or dropped it and when. Closed and
deleted sessions have no dead letters.

The list also has sessions that are set aside: a session that crashed two nodes in a row, or its driver on
them, is not driven until it is retried. Its commands wait.`,
		Example: `  turnlog dead ls
  turnlog dead show plan-7 call_1_1
  turnlog dead retry plan-7 call_1_1 --reason "the disk was full"
  turnlog dead drop plan-7 call_1_2 --reason "done by hand"
  turnlog dead retry plan-9`,
	}
	list := listing[*report.Call]{
		short: "List the dead letters and the sessions that are set aside",
		long: `Lists dead letters, one per line: those of one session, or without SESSION, those of all sessions that
the deployment lists as having any, and the sessions that are set aside.`,
		example: `  turnlog dead ls
  turnlog dead ls plan-7
  turnlog dead ls -o json | jq -r '.[] | "\(.session) \(.call)"'`,
		listed: deadOrAside,
		read: func(ctx context.Context, c *client.Client, id content.SessionID) ([]*report.Call, error) {
			broken, err := asideOf(ctx, c, id)
			if err != nil {
				return nil, err
			}
			calls, err := callsOf(ctx, c, id)
			if errors.Is(err, session.ErrNotFound) && broken != nil { // its first command crashes nodes
				return broken, nil
			}
			if err != nil {
				return broken, err
			}
			dead, err := calls.Dead(ctx)
			return append(broken, dead...), err
		},
		header: "SESSION CALL TOOL EFFECTS ATTEMPTS SINCE WHY",
		cells: func(c *report.Call) []any {
			last := c.Lost[len(c.Lost)-1]
			return []any{
				c.Session, cmp.Or(string(c.Call), "-"), cmp.Or(c.Tool, "-"), cmp.Or(c.Effects, "-"), c.Attempts,
				app.When(last.At), render.Style{}.Line(last.Reason),
			}
		},
	}
	cmd.AddCommand(listOf(a, list), showDead(a), retryDead(a), dropDead(a))
	return cmd
}

// deadOrAside lists the sessions that may have dead letters or are set aside.
func deadOrAside(c *client.Client, ctx context.Context) ([]content.SessionID, error) { //nolint:revive // a method expression
	out, err := c.Dead(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.SetAside(ctx)
	for _, t := range all {
		out = append(out, t.Session)
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// asideOf returns a dead letter without a call if the session is set aside.
func asideOf(ctx context.Context, c *client.Client, id content.SessionID) (out []*report.Call, err error) {
	all, err := c.SetAside(ctx)
	for _, t := range all {
		if t.Session != id {
			continue
		}
		p := &report.Call{Session: id, State: report.StateAside, Attempts: len(t.Broke), Settled: []report.Settlement{}}
		for i, b := range t.Broke {
			reason := "node " + b.Node + " ended while it handled the session"
			if b.Error != "" {
				reason = "on node " + b.Node + ": " + b.Error
			}
			p.Lost = append(p.Lost, report.LostAttempt{Attempt: i + 1, At: b.At, Reason: reason})
		}
		out = append(out, p)
	}
	return out, err
}

func showDead(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show SESSION CALL",
		Short: "Show the history of a call that lost its workers",
		Long: `Shows a call that lost workers, even if it is no longer a dead letter: its input, which attempts
were lost, when and why, and who retried or dropped it.`,
		Example: `  turnlog dead show plan-7 call_1_1
  turnlog dead show plan-7 call_1_1 -o json | jq .input`,
	}
	return showing(a.RemoteApprover(cmd), cmd, deadLetter, printCall)
}

func printCall(c *report.Call, w io.Writer) error {
	line := render.Style{}.Line
	return app.Fields(w, func(row func(name, format string, args ...any)) {
		row("session", "%s", c.Session)
		row("call", "%s", c.Call)
		row("tool", "%s", c.Tool)
		row("input", "%s", render.Style{Full: true}.Line(string(c.Input)))
		if len(c.Model) > 0 {
			row("model's input", "%s", render.Style{Full: true}.Line(string(c.Model)))
		}
		row("state", "%s", c.State)
		row("effects", "%s", c.Effects)
		row("queue", "%s", c.Queue)
		row("place", "%s, round %d", c.Turn, c.Round)
		row("attempts", "%d", c.Attempts)
		for _, l := range c.Lost {
			row("lost", "%s, attempt %d: %s", app.When(l.At), l.Attempt, line(l.Reason))
		}
		for _, s := range c.Settled {
			text := app.When(s.At) + ", by " + content.Sender(s.User, s.By)
			if s.Reason != "" {
				text += ": " + line(s.Reason)
			}
			row(string(s.Outcome), "%s", text)
		}
		row("result", "%s", c.Result)
	})
}

func retryDead(a *app.App) *cobra.Command {
	v := commands.SettleDeadLetter{Retry: true}
	cmd := &cobra.Command{
		Use:   "retry SESSION [CALL]",
		Short: "Retry a dead letter, or a session that is set aside",
		Long: `Dispatches the call again, as the next attempt, and waits until that is recorded. The call runs in
the background: its result arrives as a notification, which wakes the session. If its workers are
lost again, it becomes a dead letter again.

If the tool does not declare itself safe to repeat, first find out what the lost attempt did.
--may-repeat accepts that the effects of the call may happen twice.

Without CALL it puts a session that is set aside back into service. First fix what crashed the nodes: for
example, give them more memory, or update them. If the session crashes two more nodes, it is set aside
again. The session's journal records who retried it.`,
		Example: `  turnlog dead retry plan-7 call_1_1
  turnlog dead retry plan-7 call_1_2 --may-repeat --reason "the bank has no such payment"
  turnlog dead retry plan-9`,
	}
	cmd.Flags().BoolVar(&v.MayRepeat, "may-repeat", false, "retry even if the effects of the call may happen twice")
	r := a.RemoteApprover(cmd)
	ofCall := settling(r, cmd, &v, "runs again").RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return ofCall(cmd, args)
		}
		id, _, err := parseArguments(args)
		if err != nil {
			return err
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			if err := c.RetrySession(ctx, id); err != nil {
				return err
			}
			_, err := fmt.Fprintf(a.Out, "session %s is driven again\n", id)
			return err
		})
	}
	return cmd
}

func dropDead(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drop SESSION CALL",
		Short: "Remove a dead letter from the list",
		Long: `Records that the call will not be retried, and removes it from the list. Its outcome stays
unknown, unless a lost worker still reports a result: the first such result is recorded.`,
		Example: `  turnlog dead drop plan-7 call_1_1 --reason "done by hand"`,
	}
	return settling(a.RemoteApprover(cmd), cmd, &commands.SettleDeadLetter{}, "is dropped")
}

// settling completes a command that decides about a dead letter.
func settling(r *app.Remote, cmd *cobra.Command, v *commands.SettleDeadLetter, done string) *cobra.Command {
	cmd.Flags().StringVar(&v.Reason, "reason", "", "`text` that is recorded with the decision")
	cmd.PreRunE = func(*cobra.Command, []string) error { return checkReason(v.Reason) }
	return acting(r, cmd, func(ctx context.Context, c *client.Client, s *session.Session, call content.CallID) error {
		letter, err := deadLetter(ctx, c, s.ID(), call)
		if err != nil {
			return err
		}
		if v.Retry && !v.MayRepeat && letter.State == "dead" && letter.Effects == report.EffectsName(content.Once) {
			return fmt.Errorf("%s (call %s) may have taken effect: check, and if it is safe to repeat, add --may-repeat", letter.Tool, letter.Call)
		}
		v.Call = letter.Call
		if err := s.Ask(ctx, *v); err != nil {
			return err
		}
		_, err = fmt.Fprintf(r.App.Out, "%s (call %s) %s\n", render.Safe(letter.Tool), letter.Call, done)
		return err
	})
}
