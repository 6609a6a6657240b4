// Package sessions holds the commands that look at sessions, decide what they ask,
// and delete them.
//
// The one idea: each command reads a session's state or sends it one command, and
// then is done. What waits for a turn is package talk.
package sessions

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// Command returns the command with its subcommands.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List, show and delete the sessions of a deployment",
		Example: `  turnlog sessions ls
  turnlog sessions show plan-7 -o json
  turnlog sessions rm plan-7`,
	}
	r := a.RemoteClient(cmd)
	cmd.AddCommand(list(a, r), show(r), remove(a, r))
	return cmd
}

func show(r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show SESSION",
		Short: "Show the state of a session",
		Example: `  turnlog sessions show plan-7
  turnlog sessions show plan-7 -o json`,
	}
	read := func(ctx context.Context, c *client.Client, id content.SessionID, _ content.CallID) (report, error) {
		state, head, err := c.Read(ctx, id)
		if err != nil {
			return report{}, app.NoSession(id, err)
		}
		return reportOf(state, head), nil
	}
	return showing(r, cmd, read, report.print)
}

// report is the state of a session.
type report struct {
	Session   content.SessionID `json:"session"`
	State     string            `json:"state"` // idle, working, approval, yield, ready, closed, deleted, never opened
	Agent     *agentReport      `json:"agent,omitempty"`
	Model     string            `json:"model"`
	Changed   content.Time      `json:"changed_at"`
	Turns     int               `json:"turns"`
	Turn      content.TurnID    `json:"turn,omitempty"` // the open one
	Round     int               `json:"round,omitempty"`
	Items     int               `json:"items"`
	Queued    int               `json:"queued"`
	Usage     app.Usage         `json:"usage"`
	Requests  int64             `json:"requests"`
	ToolCalls int64             `json:"tool_calls"`
	Approvals []events.Approval `json:"approvals,omitempty"`
	Epoch     uint64            `json:"epoch"`
	Journal   app.Head          `json:"journal"`
	Deleted   *events.Deletion  `json:"deleted,omitempty"` // nothing else is known then
}

// agentReport is the agent that a session started with.
type agentReport struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func reportOf(s *loop.State, head journal.Head) report {
	r := report{
		Session: s.Session, State: string(loop.Waiting(s)), Model: s.Config.Model, Changed: s.At,
		Turns: s.Turns, Items: len(s.Transcript), Queued: len(s.Queue), Usage: app.Usage(s.Used.Usage),
		Requests: s.Used.Requests, ToolCalls: s.Used.ToolCalls, Approvals: s.PendingApprovals(),
		Epoch: s.Epoch, Journal: app.HeadOf(head), Deleted: s.Deleted,
	}
	if ref := s.Config.Agent; ref != nil {
		r.Agent = &agentReport{Name: ref.Name, Version: ref.Version}
	}
	if s.Turn != nil {
		r.Turn, r.Round = s.Turn.ID, s.Turn.Round
	}
	switch {
	case s.Deleted != nil:
		r.State = "deleted"
	case !s.Opened:
		r.State = "never opened" // the request to open it was refused
	case s.Closed:
		r.State = "closed"
	case r.State == string(commands.WaitInput):
		r.State = "idle"
	}
	return r
}

func (r report) print(w io.Writer) error {
	if r.Deleted != nil {
		_, err := fmt.Fprintf(w, "session %s %s\n", r.Session, r.Deleted)
		return err
	}
	return app.Fields(w, func(row func(name, format string, args ...any)) {
		row("session", "%s", r.Session)
		row("state", "%s", r.State)
		if r.Turn != "" {
			row("open turn", "%s, round %d", r.Turn, r.Round)
		}
		if r.Agent != nil {
			row("agent", "%s, version %s", r.Agent.Name, r.Agent.Version)
		}
		row("model", "%s", r.Model)
		row("last change", "%s, %s ago", app.When(r.Changed), age(time.Since(r.Changed.Std())))
		row("turns", "%d", r.Turns)
		row("items", "%d", r.Items)
		if r.Queued > 0 {
			row("queued", "%d", r.Queued)
		}
		row("usage", "%d input tokens, %d output tokens, %d model calls, %d tool calls",
			r.Usage.InputTokens, r.Usage.OutputTokens, r.Requests, r.ToolCalls)
		for _, p := range r.Approvals {
			row("approval", "%s wanted for %s: %s", p.ID, p.Tool, render.Style{}.Line(p.Summary))
		}
		row("journal", "%d entries, epoch %d, ends in %s", r.Journal.Seq, r.Epoch, r.Journal.Hash)
	})
}
