package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
)

// openApproval is an approval that nobody has decided, of some session.
type openApproval struct {
	Session content.SessionID `json:"session"`
	app.Approval
}

// Approvals returns the command that lists approvals.
func Approvals(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Look at what waits for a person's approval",
		Example: `  turnlog approvals ls
  turnlog approvals ls plan-7 -o json`,
	}
	r := a.Remote(cmd, jetstream.RoleApprover)
	ls := &cobra.Command{
		Use:     "ls [SESSION]",
		Aliases: []string{"list"},
		Short:   "List the calls that wait for an approval, of one session or of all",
		Long: `Lists the calls that wait for a person's approval, one a line. Without a session it reads the
journals of those that the deployment has on its list of open approvals.

Sessions that a release before this one left with an open approval are on that list once they
have been woken; --all reads the journals of all sessions instead.`,
		Example: `  turnlog approvals ls
  turnlog approvals ls plan-7
  turnlog approvals ls -o json | jq -r '.[] | "\(.session) \(.call)"'`,
	}
	var everywhere bool
	ls.Flags().BoolVar(&everywhere, "all", false, "read the journals of all sessions")
	output := cli.OutputFlag(ls, "text", "json")
	ls.RunE = func(cmd *cobra.Command, args []string) error {
		if everywhere && len(args) > 0 {
			return cli.Usage("--all and a session at once: give one of them")
		}
		return r.Do(cmd.Context(), func(ctx context.Context, d *cli.Cell, c *client.Client) error {
			which := c.Asking
			if everywhere {
				which = c.Sessions
			}
			all, err := openApprovals(a, ctx, d, which, args)
			if err != nil {
				return err
			}
			if output.String() == "json" {
				return app.WriteJSON(a.Out, all)
			}
			return printApprovals(a.Out, all)
		})
	}
	cmd.AddCommand(ls)
	return cmd
}

// openApprovals reads the journals of the named session, or of those that are listed.
// Of them, what cannot be read is only complained about.
func openApprovals(
	a *app.App, ctx context.Context, d *cli.Cell, list func(context.Context) ([]content.SessionID, error), args []string,
) ([]openApproval, error) {
	all := []openApproval{}
	if len(args) > 0 {
		id, err := cli.ParseSession(args[0])
		if err != nil {
			return nil, err
		}
		b, err := readCases(ctx, d.Cell, id)
		if err != nil {
			return nil, err
		}
		if d := b.state.Deleted; d != nil {
			return nil, &client.DeletedError{Session: id, Deletion: *d}
		}
		return b.open(all), nil
	}
	ids, err := list(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		b, err := readCases(ctx, d.Cell, id)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			a.Complain(err)
			continue
		}
		all = b.open(all)
	}
	return all, nil
}

// open adds the session's open approvals to all.
func (b *casebook) open(all []openApproval) []openApproval {
	for _, p := range b.state.PendingApprovals() {
		all = append(all, openApproval{b.state.Session, app.ApprovalOf(p)})
	}
	return all
}

func printApprovals(w io.Writer, all []openApproval) error {
	if len(all) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "SESSION\tCALL\tTOOL\tEXPIRES\tWHAT")
	for _, p := range all {
		expires, what := "never", p.Summary
		if p.ExpiresAt != nil {
			expires = p.ExpiresAt.String()
		}
		if what == "" {
			what = string(p.Reason) + " " + string(p.Input)
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", p.Session, p.Call, render.Safe(p.Tool), expires, render.Style{}.Line(what))
	}
	return t.Flush()
}

// Approve returns the command that approves a call.
func Approve(a *app.App) *cobra.Command {
	var input string
	var always bool
	cmd := &cobra.Command{
		Use:   "approve SESSION CALL",
		Short: "Let a call run that waits for an approval",
		Long: `Approves a call that waits for a person, and waits until that is recorded. The first decision
counts: a later one is refused, and told who decided what.

With --input the tool gets other arguments than the model gave; they have to fit its schema.`,
		Example: `  turnlog approve plan-7 call_1_1
  turnlog approve plan-7 call_1_1 --always
  turnlog approve plan-7 call_1_1 --input '{"path":"docs/index.md"}'`,
	}
	cmd.Flags().BoolVar(&always, "always", false, "do not ask the same about the same tool again in this session")
	cmd.Flags().StringVar(&input, "input", "", "the `JSON` object that the tool gets instead of the model's")
	r := a.Remote(cmd, jetstream.RoleApprover)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v := commands.ResolveApproval{Approve: true, Always: always}
		if cmd.Flags().Changed("input") {
			if v.Input = json.RawMessage(input); !json.Valid(v.Input) {
				return cli.Usage("--input is not JSON: %s", render.Style{}.Line(input))
			}
			if always {
				return cli.Usage("--always and --input at once: an approval for always is of what the model asks for")
			}
		}
		return decide(r, cmd.Context(), args, v, "approved")
	}
	return cmd
}

// Deny returns the command that denies a call.
func Deny(a *app.App) *cobra.Command {
	var v commands.ResolveApproval
	cmd := &cobra.Command{
		Use:   "deny SESSION CALL",
		Short: "Refuse a call that waits for an approval",
		Long: `Denies a call that waits for a person, and waits until that is recorded. The model is told, with
the reason, and the turn goes on. The first decision counts.`,
		Example: `  turnlog deny plan-7 call_1_1
  turnlog deny plan-7 call_1_1 --reason "not on a Friday"`,
	}
	cmd.Flags().StringVar(&v.Reason, "reason", "", "`text` that the model is told")
	r := a.Remote(cmd, jetstream.RoleApprover)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return decide(r, cmd.Context(), args, v, "denied") }
	return cmd
}

// decide settles the oldest approval of a call that is open.
func decide(r *app.Remote, ctx context.Context, args []string, v commands.ResolveApproval, done string) error {
	id, err := cli.ParseSession(args[0])
	if err != nil {
		return err
	}
	call, err := app.ParseCall(args[1])
	if err != nil {
		return err
	}
	return r.Do(ctx, func(ctx context.Context, d *cli.Cell, c *client.Client) error {
		before, err := readCases(ctx, d.Cell, id)
		if err != nil {
			return err
		}
		p, err := before.pending(call)
		if err != nil {
			return err
		}
		v.Approval, v.By = p.ID, r.App.Person()
		err = r.Ask(ctx, c, id, func(ctx context.Context, s *client.Session) error { return s.Ask(ctx, v) })
		if err != nil {
			return overtaken(ctx, d, id, p, err)
		}
		if _, err := fmt.Fprintf(r.App.Out, "%s %s (call %s)\n", done, render.Safe(p.Tool), call); err != nil {
			return err
		}
		after, err := readCases(ctx, d.Cell, id)
		if err != nil {
			return err
		}
		if next, err := after.pending(call); err == nil {
			r.App.Hint("another question about the call is open: %s", app.Question(next))
		}
		return nil
	})
}

// overtaken says who was first, if a decision failed because of another one.
func overtaken(ctx context.Context, d *cli.Cell, id content.SessionID, p events.Approval, err error) error {
	b, readErr := readCases(ctx, d.Cell, id)
	if readErr != nil || slices.ContainsFunc(b.state.PendingApprovals(), func(a events.Approval) bool { return a.ID == p.ID }) {
		return err
	}
	if _, decided := b.pending(p.CallID); decided != nil {
		return decided
	}
	return err
}
