package journals

import (
	"context"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/compare"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
)

// Diff returns the command that compares two sessions.
func Diff(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show how two sessions differ",
		Long: `Compares two sessions, or exported files (an argument with a dot or a slash). It shows where they diverge,
which input, calls, results, decisions and replies only one of them has, and what each cost. It ignores times,
IDs and everything else that differs between any two sessions. It does not verify the journals: use
"observer verify" for that.

With --exit-code it exits with 1 if they differ.`,
		Example: `  turnlog diff plan-7 plan-8
  turnlog diff before.jsonl plan-8 -o side
  turnlog diff before.jsonl after.jsonl -o json | jq '.changes[] | select(.a.kind == "call")'`,
	}
	r := a.RemoteClient(cmd)
	output := a.Output(cmd, "text", "side", "json")
	exit := cmd.Flags().Bool("exit-code", false, "exit with 1 if they differ")
	width := cmd.Flags().Int("width", 160, "columns of -o side")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var d *compare.Diff
		err := with(cmd.Context(), r, args, func(_ context.Context, records func(string) iter.Seq2[journal.Record, error]) error {
			var sides [2]compare.Reader
			for i, arg := range args {
				for rec, err := range records(arg) {
					if err == nil {
						err = rec.Err
					}
					if err != nil {
						return err
					}
					sides[i].Add(rec)
				}
			}
			d = compare.Between(&sides[0], &sides[1])
			return nil
		})
		if err != nil {
			return err
		}
		style := render.Style{Color: cli.Colored(a.Out, a.Getenv)}
		err = output.Print(d, func(w io.Writer) error {
			if output.String() == "side" {
				return render.SideBySide(w, style, d, *width)
			}
			return render.Compare(w, style, d)
		})
		if err == nil && *exit && !d.Same {
			return &cli.ExitError{Code: 1}
		}
		return err
	}
	return cmd
}
