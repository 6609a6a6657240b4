package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/session"
)

// pendingApproval is an approval of some session.
type pendingApproval struct {
	Session content.SessionID `json:"session"`
	app.Approval
}

// Approvals returns the command that lists approvals.
func Approvals(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Show what waits for a person's approval",
		Example: `  turnlog approvals ls
  turnlog approvals ls plan-7 -o json`,
	}
	cmd.AddCommand(listOf(a, listing[pendingApproval]{
		short: "List the calls that wait for approval, of one session or of all",
		long: `Lists the calls that wait for a person's approval, one per line. Without a session it reads the
sessions that the deployment lists as having pending approvals.

Sessions that an older release left with a pending approval are listed once they have been woken;
--all reads all sessions instead.`,
		example: `  turnlog approvals ls
  turnlog approvals ls plan-7
  turnlog approvals ls -o json | jq -r '.[] | "\(.session) \(.call)"'`,
		listed: (*client.Client).Asking,
		read: func(ctx context.Context, c *client.Client, id content.SessionID) (out []pendingApproval, err error) {
			state, err := readState(ctx, c, id)
			if err != nil {
				return nil, err
			}
			for _, p := range state.PendingApprovals() {
				out = append(out, pendingApproval{id, app.ApprovalOf(p)})
			}
			return out, nil
		},
		header: "SESSION CALL TOOL EXPIRES WHAT",
		cells: func(p pendingApproval) []any {
			expires, what := "never", p.Summary
			if p.ExpiresAt != nil {
				expires = p.ExpiresAt.String()
			}
			if what == "" {
				what = string(p.Reason) + " " + string(p.Input)
			}
			return []any{p.Session, p.Call, p.Tool, expires, render.Style{}.Line(what)}
		},
	}))
	return cmd
}

// Approve returns the command that approves a call.
func Approve(a *app.App) *cobra.Command {
	v := commands.ResolveApproval{Approve: true}
	var input string
	cmd := &cobra.Command{
		Use:   "approve SESSION CALL",
		Short: "Approve a call that waits for approval",
		Long: `Approves a call that waits for a person, and waits until that is recorded. The first decision
counts: a later one is refused, with who decided what.

With --input the tool gets other arguments than the model gave; they must match its schema.`,
		Example: `  turnlog approve plan-7 call_1_1
  turnlog approve plan-7 call_1_1 --always
  turnlog approve plan-7 call_1_1 --input '{"path":"docs/index.md"}'`,
	}
	cmd.Flags().BoolVar(&v.Always, "always", false, "do not ask the same about the same tool again in this session")
	cmd.Flags().StringVar(&input, "input", "", "the `JSON` object that the tool gets instead of the model's")
	r := a.Remote(cmd, admin.RoleApprover)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("input") {
			if v.Input = json.RawMessage(input); !json.Valid(v.Input) {
				return cli.Usage("--input is not JSON: %s", render.Style{}.Line(input))
			}
			if v.Always {
				return cli.Usage("--always and --input: a permanent approval is for the model's arguments")
			}
		}
		return decide(cmd.Context(), r, args, v, "approved")
	}
	return cmd
}

// Deny returns the command that denies a call.
func Deny(a *app.App) *cobra.Command {
	var v commands.ResolveApproval
	cmd := &cobra.Command{
		Use:   "deny SESSION CALL",
		Short: "Deny a call that waits for approval",
		Long: `Denies a call that waits for a person, and waits until that is recorded. The model sees that, with
the reason, and the turn continues. The first decision counts.`,
		Example: `  turnlog deny plan-7 call_1_1
  turnlog deny plan-7 call_1_1 --reason "not on a Friday"`,
	}
	cmd.Flags().StringVar(&v.Reason, "reason", "", "`text` that the model sees")
	r := a.Remote(cmd, admin.RoleApprover)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return decide(cmd.Context(), r, args, v, "denied") }
	return cmd
}

// decide decides the oldest pending approval of a call.
func decide(ctx context.Context, r *app.Remote, args []string, v commands.ResolveApproval, done string) error {
	id, call, err := parseCall(args)
	if err != nil {
		return err
	}
	return r.Do(ctx, func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
		return r.With(ctx, c, id, func(ctx context.Context, s *session.Session) error {
			p := pendingOf(s, call)
			if p == nil {
				return notPending(ctx, c, id, call)
			}
			v.Approval, v.By = p.ID, r.App.Person()
			err := s.Ask(ctx, v)
			next := pendingOf(s, call)
			switch {
			case err != nil && next == nil: // another client was faster
				return cmp.Or(notPending(ctx, c, id, call), err)
			case err != nil:
				return err
			}
			if _, err := fmt.Fprintf(r.App.Out, "%s %s (call %s)\n", done, render.Safe(p.Tool), call); err != nil {
				return err
			}
			if next != nil {
				r.App.Hint("another question about the call is pending: %s", app.Question(*next))
			}
			return nil
		})
	})
}

// pendingOf returns the oldest pending approval of a call, or nil.
func pendingOf(s *session.Session, call content.CallID) *events.Approval {
	for _, a := range s.PendingApprovals() {
		if a.CallID == call {
			return &a
		}
	}
	return nil
}

func parseCall(args []string) (content.SessionID, content.CallID, error) {
	id, err := cli.ParseSession(args[0])
	if err != nil {
		return "", "", err
	}
	call, err := app.ParseCall(args[1])
	return id, call, err
}

// listing is a command that lists something of one session or of all.
type listing[R any] struct {
	short, long, example string

	listed func(*client.Client, context.Context) ([]content.SessionID, error) // the sessions that have some
	read   func(context.Context, *client.Client, content.SessionID) ([]R, error)
	header string
	cells  func(R) []any
}

func listOf[R any](a *app.App, l listing[R]) *cobra.Command {
	cmd := &cobra.Command{Use: "ls [SESSION]", Aliases: []string{"list"}, Short: l.short, Long: l.long, Example: l.example}
	everywhere := cmd.Flags().Bool("all", false, "read all sessions")
	output := a.Output(cmd)
	r := a.Remote(cmd, admin.RoleApprover)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *everywhere && len(args) > 0 {
			return cli.Usage("--all and a session: give one of them")
		}
		if *everywhere {
			l.listed = (*client.Client).Sessions
		}
		var one content.SessionID
		if len(args) > 0 {
			var err error
			if one, err = cli.ParseSession(args[0]); err != nil {
				return err
			}
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			rows, err := l.rows(ctx, a, c, one)
			if err != nil {
				return err
			}
			return output.Print(rows, func(w io.Writer) error { return app.Table(w, l.header, rows, l.cells) })
		})
	}
	return cmd
}

// rows reads one session, or those that are listed. Of the latter, one that cannot be read
// is reported and skipped.
func (l listing[R]) rows(ctx context.Context, a *app.App, c *client.Client, one content.SessionID) ([]R, error) {
	all := []R{}
	if one != "" {
		rows, err := l.read(ctx, c, one)
		return append(all, rows...), err
	}
	ids, err := l.listed(c, ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		rows, err := l.read(ctx, c, id)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case isDeleted(err): // "turnlog gc" takes it off the list
		case err != nil:
			a.Complain(err)
		}
		all = append(all, rows...)
	}
	return all, nil
}
