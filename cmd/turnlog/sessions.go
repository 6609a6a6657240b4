package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

func newSessionsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "Look at the sessions of a deployment, and delete some",
		Example: `  turnlog sessions ls
  turnlog sessions show plan-7 -o json
  turnlog sessions rm plan-7`,
	}
	deployment := cli.NewDeployment(cmd, a.getenv)
	logs := cli.NewLog(cmd, zapcore.WarnLevel)
	open := func(cmd *cobra.Command, do func(context.Context, *client.Client) error) error {
		log := logs.Logger(a.term.err, a.getenv)
		return a.interruptible(cmd.Context(), func(ctx context.Context) error {
			d, err := deployment.Open(ctx, "turnlog sessions", log, jetstream.RoleClient)
			if err != nil {
				return err
			}
			defer d.Close()
			c, err := client.Open(d.Conn, d.Namespace(), client.WithLogger(log))
			if err != nil {
				return err
			}
			return do(ctx, c)
		})
	}
	keeping := &remote{app: a, name: "sessions", role: jetstream.RoleKeeper, deployment: deployment, logs: logs}
	cmd.AddCommand(newSessionsListCommand(a, open), newSessionsShowCommand(a, open), newSessionsRemoveCommand(a, keeping))
	return cmd
}

// opener runs something with a client of the deployment that the flags name.
type opener func(cmd *cobra.Command, do func(context.Context, *client.Client) error) error

func newSessionsListCommand(a *app, open opener) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the sessions, one a line",
		Example: "  turnlog sessions ls",
	}
	output := cli.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return open(cmd, func(ctx context.Context, c *client.Client) error {
			ids, err := c.Sessions(ctx)
			if err != nil {
				return err
			}
			if output.String() == "json" {
				return writeJSON(a.term.out, append([]content.SessionID{}, ids...))
			}
			for _, id := range ids {
				if _, err := fmt.Fprintln(a.term.out, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

func newSessionsShowCommand(a *app, open opener) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show SESSION",
		Short: "Show how a session stands",
		Example: `  turnlog sessions show plan-7
  turnlog sessions show plan-7 -o json`,
	}
	output := cli.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := content.ParseSessionID(args[0])
		if err != nil {
			return usageError("%w", err)
		}
		return open(cmd, func(ctx context.Context, c *client.Client) error {
			state, head, err := c.Read(ctx, id)
			if err != nil {
				return noSession(id, err)
			}
			r := sessionReportOf(state, head)
			r.Deleted = state.Deleted
			if output.String() == "json" {
				return writeJSON(a.term.out, r)
			}
			return r.print(a.term.out)
		})
	}
	return cmd
}

// sessionReport is how a session stands.
type sessionReport struct {
	Session   content.SessionID `json:"session"`
	State     string            `json:"state"`           // idle, working, approval, yield, ready, closed, deleted
	Agent     *agentReport      `json:"agent,omitempty"` // of which the session is, as it began
	Model     string            `json:"model"`
	Changed   content.Time      `json:"changed_at"`
	Turns     int               `json:"turns"`
	Turn      content.TurnID    `json:"turn,omitempty"` // the open one
	Round     int               `json:"round,omitempty"`
	Items     int               `json:"items"`
	Queued    int               `json:"queued"`
	Usage     usageReport       `json:"usage"`
	Requests  int64             `json:"requests"`
	ToolCalls int64             `json:"tool_calls"`
	Approvals []events.Approval `json:"approvals,omitempty"`
	Epoch     uint64            `json:"epoch"`
	Journal   headReport        `json:"journal"`
	Deleted   *events.Deletion  `json:"deleted,omitempty"` // nothing else is known of it then
}

func sessionReportOf(s *loop.State, head journal.Head) sessionReport {
	r := sessionReport{
		Session: s.Session, State: string(loop.Waiting(s)), Agent: agentReportOf(s.Config), Model: s.Config.Model, Changed: s.At,
		Turns: s.Turns, Items: len(s.Transcript), Queued: len(s.Queue),
		Usage:    usageReport{InputTokens: s.Used.Usage.InputTokens, OutputTokens: s.Used.Usage.OutputTokens},
		Requests: s.Used.Requests, ToolCalls: s.Used.ToolCalls, Approvals: s.PendingApprovals(),
		Epoch: s.Epoch, Journal: headReport{Seq: head.Seq, Hash: head.Hash},
	}
	if s.Turn != nil {
		r.Turn, r.Round = s.Turn.ID, s.Turn.Round
	}
	switch {
	case s.Deleted != nil:
		r.State = "deleted"
	case s.Closed:
		r.State = "closed"
	case r.State == string(commands.WaitInput):
		r.State = "idle"
	}
	return r
}

func (r sessionReport) print(w io.Writer) error {
	if r.Deleted != nil {
		_, err := fmt.Fprintf(w, "session %s %s\n", r.Session, r.Deleted)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { _, _ = fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("session", "%s", r.Session)
	row("state", "%s", r.State)
	if r.Turn != "" {
		row("open turn", "%s, round %d", r.Turn, r.Round)
	}
	if r.Agent != nil {
		row("agent", "%s, version %s", r.Agent.Name, r.Agent.Version)
	}
	row("model", "%s", r.Model)
	row("last change", "%s", r.Changed)
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
	return t.Flush()
}
