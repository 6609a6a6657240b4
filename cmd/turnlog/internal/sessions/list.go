package sessions

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
)

func list(a *app.App, r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the sessions, one per line",
		Long: `Lists the sessions with their state, the time since their last entry, and their title: the first words of a
user. Driver nodes maintain this list, so the command reads only journals that changed in the last minutes and those
of sealed sessions. --text reads the journals that it searches.

OF is the entry that a fork continues, or the parent session of a sub-agent.

States are idle, working, approval (a call waits for approval), yield, ready, closed, and aside: the session
crashed nodes, so none drives it (see "turnlog dead").`,
		Example: `  turnlog sessions ls
  turnlog sessions ls --state approval
  turnlog sessions ls --search invoice --sort tokens --limit 10
  turnlog sessions ls --agent 'review*' -o json | jq -r '.[].session'`,
	}
	var q report.Query
	sort := cli.NewChoice("age", "session", "tokens", "turns", "cost")
	fs := cmd.Flags()
	fs.StringVar(&q.State, "state", "", "only sessions in this `state`")
	fs.StringVar(&q.Agent, "agent", "", "only sessions whose agent matches this `pattern`, where * matches any characters")
	fs.StringVar(&q.Model, "model", "", "only sessions whose model matches this `pattern`")
	fs.StringVar(&q.Search, "search", "", "only sessions with this `text` in their ID or title, ignoring case")
	fs.StringVar(&q.Tool, "tool", "", "only sessions with calls of a tool that matches this `pattern`")
	fs.StringVar(&q.Text, "text", "", "only sessions with this `text` in their transcript, ignoring case")
	fs.Float64Var(&q.Cost, "cost", 0, "only sessions that cost at least this `amount`, in their currency")
	fs.IntVar(&q.Limit, "limit", 0, "list at most this `number`; 0: all")
	sort.Register(cmd, "sort", "", "what decides the order, latest or most first")
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q.Sort = sort.String()
		if q.Limit < 0 {
			return cli.Usage("--limit %d: use 1 or more, or 0 for all", q.Limit)
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			rows, err := q.List(ctx, c, a.Complain)
			if err != nil {
				return err
			}
			return output.Print(rows, func(w io.Writer) error { return printSummaries(w, rows, time.Now()) })
		})
	}
	return cmd
}

func printSummaries(w io.Writer, rows []report.Summary, now time.Time) error {
	return app.Table(w, "SESSION STATE AGE TURNS TOKENS MODEL AGENT OF TITLE", rows, func(s report.Summary) []any {
		return []any{s.Session, s.State, age(now.Sub(s.Changed.Std())), s.Turns, s.Tokens(), cmp.Or(s.Model, "-"), s.AgentName(), s.Of(), s.Title}
	})
}

// age rounds a duration down to its largest unit.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", max(d, 0)/time.Second)
}
