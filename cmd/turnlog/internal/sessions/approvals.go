package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/session"
)

// pendingApproval is an approval of some session.
type pendingApproval struct {
	Session content.SessionID `json:"session"`
	report.Approval
}

// Approvals returns the command that lists approvals.
func Approvals(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Show calls that wait for approval",
		Example: `  turnlog approvals ls
  turnlog approvals ls plan-7 -o json`,
	}
	cmd.AddCommand(listOf(a, listing[pendingApproval]{
		short: "List the calls that wait for approval, of one session or of all",
		long: `Lists the calls that wait for approval, one per line. Without SESSION it reads the sessions that the
deployment lists as having pending approvals. "turnlog sessions ls --state approval" reads all sessions.`,
		example: `  turnlog approvals ls
  turnlog approvals ls plan-7
  turnlog approvals ls -o json | jq -r '.[] | "\(.session) \(.call)"'`,
		listed: (*client.Client).Asking,
		read: func(ctx context.Context, c *client.Client, id content.SessionID) (out []pendingApproval, err error) {
			state, err := app.ReadSession(ctx, c, id)
			if err != nil {
				return nil, err
			}
			for _, p := range state.PendingApprovals() {
				out = append(out, pendingApproval{id, report.ApprovalOf(p)})
			}
			return out, nil
		},
		header: "SESSION CALL TOOL EXPIRES WHAT",
		cells: func(p pendingApproval) []any {
			expires, what := "never", p.Summary
			if p.ExpiresAt != nil {
				expires = app.When(*p.ExpiresAt)
			}
			if what == "" {
				what = string(p.Reason) + " " + string(p.Input)
			}
			return []any{p.Session, p.Call, p.Tool, expires, render.Style{}.Line(what)}
		},
	}), showApproval(a))
	return cmd
}

// asked is a call and all questions about it.
type asked struct {
	Session   content.SessionID  `json:"session"`
	Call      content.CallID     `json:"call"`
	Tool      string             `json:"tool"`
	Input     json.RawMessage    `json:"input"`                 // what the tool gets
	Model     json.RawMessage    `json:"model_input,omitempty"` // what the model gave, if it was changed
	Questions []*report.Question `json:"questions"`
}

func showApproval(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show SESSION CALL",
		Short: "Show the details of a call that needs or needed approval",
		Long: `Shows what an approval covers: the whole input of the call, with control characters escaped and edits as
a diff; the model's input if an approver or a hook changed it; each question about the call and its decision; and
what approving with --always would allow. CALL is the ID of the call or of an approval.`,
		Example: `  turnlog approvals show plan-7 call_1_1
  turnlog approvals show plan-7 call_1_1 -o json | jq .input`,
	}
	read := func(ctx context.Context, c *client.Client, id content.SessionID, call content.CallID) (asked, error) {
		p, err := find(ctx, c, id, call)
		switch {
		case err != nil:
			return asked{}, err
		case len(p.Questions) == 0:
			return asked{}, fmt.Errorf("%s (call %s) needs no approval", p.Tool, p.Call)
		}
		return asked{Session: id, Call: p.Call, Tool: p.Tool, Input: p.Input, Model: p.Model, Questions: p.Questions}, nil
	}
	return showing(a.RemoteApprover(cmd), cmd, read, func(q asked, w io.Writer) error { return q.print(w, render.Style{Color: a.IsOut && a.Style.Color}) })
}

func (q asked) print(w io.Writer, style render.Style) error {
	err := app.Fields(w, func(row func(name, format string, args ...any)) {
		row("session", "%s", q.Session)
		row("call", "%s", q.Call)
		row("tool", "%s", q.Tool)
		for _, one := range q.Questions {
			row("approval", "%s: %s", one.ID, cmp.Or(one.Decided, string(one.Outcome)))
			row("  asks", "%s", one.Question())
			if one.ExpiresAt != nil {
				row("  expires", "%s", app.When(*one.ExpiresAt))
			}
			if one.Covers != "" {
				row("  always", "%s", one.Covers)
			}
		}
	})
	text := "input\n" + render.Input(style, q.Input)
	if len(q.Model) > 0 {
		text += "the model's input, before it was changed\n" + render.Input(style, q.Model)
	}
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	return err
}

// Approve returns the command that approves a call.
func Approve(a *app.App) *cobra.Command {
	v := commands.ResolveApproval{Approve: true}
	cmd := &cobra.Command{
		Use:   "approve SESSION CALL",
		Short: "Approve a call that waits for approval",
		Long: `Approves a call that waits for approval, and waits until that is recorded. Only the first decision
counts: a later one is rejected, with an error that names the first decision and its author.

With --input the tool gets these arguments instead of the model's; they must match its schema.`,
		Example: `  turnlog approve plan-7 call_1_1
  turnlog approve plan-7 call_1_1 --always
  turnlog approve plan-7 call_1_1 --input '{"path":"docs/index.md"}'`,
	}
	cmd.Flags().BoolVar(&v.Always, "always", false, "do not ask the same question about the same tool again in this session")
	cmd.Flags().Func("input", "the `JSON` object that the tool gets instead of the model's", func(text string) error {
		if v.Input = json.RawMessage(text); !json.Valid(v.Input) {
			return errors.New("it is not JSON")
		}
		return nil
	})
	cmd.MarkFlagsMutuallyExclusive("always", "input") // a permanent approval is for the model's arguments
	return deciding(a, cmd, &v, "approved")
}

// Deny returns the command that denies a call.
func Deny(a *app.App) *cobra.Command {
	var v commands.ResolveApproval
	cmd := &cobra.Command{
		Use:   "deny SESSION CALL",
		Short: "Deny a call that waits for approval",
		Long: `Denies a call that waits for approval, and waits until that is recorded. The model sees the denial and
the reason, and the turn continues. Only the first decision counts.`,
		Example: `  turnlog deny plan-7 call_1_1
  turnlog deny plan-7 call_1_1 --reason "not on a Friday"`,
	}
	cmd.Flags().StringVar(&v.Reason, "reason", "", "`text` that the model sees")
	return deciding(a, cmd, &v, "denied")
}

// deciding completes a command that decides the oldest pending approval of a call.
func deciding(a *app.App, cmd *cobra.Command, v *commands.ResolveApproval, done string) *cobra.Command {
	return acting(a.RemoteApprover(cmd), cmd, func(ctx context.Context, c *client.Client, s *session.Session, call content.CallID) error {
		p := pendingOf(s, call)
		if p == nil {
			return notPending(ctx, c, s.ID(), call)
		}
		v.Approval = p.ID
		err := s.Ask(ctx, *v)
		next := pendingOf(s, call)
		switch {
		case err != nil && next == nil: // another client was faster
			return cmp.Or(notPending(ctx, c, s.ID(), call), err)
		case err != nil:
			return err
		}
		if _, err := fmt.Fprintf(a.Out, "%s %s (call %s)\n", done, render.Safe(p.Tool), call); err != nil {
			return err
		}
		if next != nil {
			a.Hint("another question about the call is pending: %s", report.QuestionOf(*next))
		}
		return nil
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
