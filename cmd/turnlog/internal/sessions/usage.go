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
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
)

// Usage returns the command that adds up what sessions used.
func Usage(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Add up tokens and costs by day, and by model, agent and person",
		Long: `Adds up the turns, tokens and costs of all sessions by day (in UTC) and by model, agent and person. The person is the one
who opened the session, or the root session of a sub-agent. Driver nodes keep the totals of sessions, so the command reads
only journals that changed in the last minutes. The usage of a sub-agent counts once, in its own session. Deleted sessions
do not count. For each session the latest 400 combinations of day and model are kept; older usage has no day.

A cost is the provider's, or calculated from the model's price list. It is missing if neither is known.`,
		Example: `  turnlog usage
  turnlog usage --from 2026-11-01 --to 2026-11-30
  turnlog usage -o json | jq '.days[0]'`,
	}
	var in report.Period
	cmd.Flags().StringVar((*string)(&in.From), "from", "", "the first `day`, like 2026-11-01; default: all days")
	cmd.Flags().StringVar((*string)(&in.To), "to", "", "the last `day`")
	output, r := a.Output(cmd), a.RemoteClient(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for flag, day := range map[string]report.Day{"from": in.From, "to": in.To} {
			if _, err := time.Parse(time.DateOnly, string(day)); err != nil && day != "" {
				return cli.Usage("--%s %s: write a day like 2026-11-01", flag, day)
			}
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			all, err := new(report.Index).Usage(ctx, c, in, nil, a.Complain)
			if err != nil {
				return err
			}
			return output.Print(all, func(w io.Writer) error { return printSpending(w, all) })
		})
	}
	return cmd
}

func printSpending(w io.Writer, all report.Spending) error {
	const sums = "SESSIONS TURNS IN OUT COST"
	err := app.Table(w, "DAY "+sums, all.Days, func(d report.DayUse) []any {
		return append([]any{cmp.Or(d.Day, "earlier")}, sumsOf(d.Used)...)
	})
	if err == nil && len(all.Days) > 0 {
		_, err = fmt.Fprintln(w)
	}
	if err != nil || len(all.Usage) == 0 {
		return err
	}
	return app.Table(w, "MODEL AGENT PERSON "+sums, all.Usage, func(s report.Share) []any {
		return append([]any{cmp.Or(s.Model, "-"), cmp.Or(s.Agent, "-"), cmp.Or(s.Owner, "-")}, sumsOf(s.Used)...)
	})
}

func sumsOf(u report.Used) []any {
	return []any{u.Sessions, u.Turns, u.Usage.InputTokens, u.Usage.OutputTokens, cmp.Or(content.Usage(u.Usage).Cost(), "-")}
}
