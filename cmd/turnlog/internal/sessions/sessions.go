// Package sessions holds the commands that show sessions, answer their questions,
// and delete them.
//
// Each command reads a session's state, or sends it one command, and then ends.
// The commands that wait for a turn are in package talk.
package sessions

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
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
	cmd.AddCommand(list(a, r), show(r), remove(a, r), erase(a, r), moving(a, r))
	return cmd
}

func show(r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show SESSION",
		Short: "Show the state of a session",
		Example: `  turnlog sessions show plan-7
  turnlog sessions show plan-7 -o json`,
	}
	read := func(ctx context.Context, c *client.Client, id content.SessionID, _ content.CallID) (report.Session, error) {
		state, head, err := c.Read(ctx, id)
		if err != nil {
			return report.Session{}, app.NoSession(id, err)
		}
		return report.Of(state, head), nil
	}
	return showing(r, cmd, read, printSession)
}

// printSession prints the report of a session.
func printSession(r report.Session, w io.Writer) error {
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
		if r.From != "" {
			row("fork of", "%s", r.From)
		}
		if r.Parent != "" {
			row("works for", "%s", r.Parent)
		}
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
