// Package bench holds the commands that measure Turnlog and test it under faults. The code for that
// is test support: packages bench and torture below internal/testing.
package bench

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/bench"
)

// Command returns the benchmark's command.
func Command(a *app.App) *cobra.Command {
	var c bench.Config
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure durable tool round trips, compared with raw JetStream",
		Long: `Measures durable tool round trips (driver to worker and back) on an embedded server with
one-replica file streams. The same run measures two floors: the four JetStream writes of
a call that must store each step (a guarded entry, a task, a report and a guarded entry)
without Turnlog's logic. The floor's entries have the bytes and headers of Turnlog's.
Those of the lean floor have 400 bytes and no headers.

Quote the ratios, which are Turnlog's figure divided by a floor's, because absolute
numbers depend on the machine. CPU time and allocations are those of the whole process,
including the server. Messages and bytes are those that node, worker and client send and
receive. The tool is read-only, so neither its task nor its report is stored: Turnlog
makes two of the four writes. For a call that must not run twice it makes five. With
--local the node runs the tool itself, and Turnlog makes two writes; the floors are the
same. The benchmark fails if any call fails.`,
		Example: `  turnlog bench
  turnlog bench --runs 5
  turnlog bench --sessions 1 --rounds 2000
  turnlog bench --local
  turnlog bench --sessions 128 --transport tcp -o json
  turnlog bench --cpuprofile cpu.out && go tool pprof -top cpu.out`,
	}
	output := a.Output(cmd)
	fs := cmd.Flags()
	fs.IntVar(&c.Sessions, "sessions", 128, "`number` of concurrent sessions")
	fs.IntVar(&c.Rounds, "rounds", 200, "`number` of tool round trips per session")
	fs.IntVar(&c.Runs, "runs", 1, "`number` of runs of Turnlog and of the floors, in turn; it prints the medians")
	transport := cli.NewChoice("inproc", "tcp")
	transport.Register(cmd, "transport", "", "`way` to the server")
	fs.BoolVar(&c.Sync, "sync", false, "sync each write to disk")
	fs.BoolVar(&c.Local, "local", false, "let the node run the tool itself, without a worker")
	fs.StringVar(&c.CPUProfile, "cpuprofile", "", "write a CPU profile of Turnlog's first run to `file`")
	fs.StringVar(&c.MemProfile, "memprofile", "", "write an allocation profile, from the start to the end of Turnlog's first run, to `file`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case c.Sessions < 1 || c.Sessions > 10_000:
			return cli.Usage("--sessions %d: use 1 to 10,000", c.Sessions)
		case c.Rounds < 1 || c.Rounds > 1_000_000:
			return cli.Usage("--rounds %d: use 1 to 1,000,000", c.Rounds)
		case c.Runs < 1 || c.Runs > 1000:
			return cli.Usage("--runs %d: use 1 to 1,000", c.Runs)
		}
		c.TCP = transport.String() == "tcp"
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			res, err := bench.Run(ctx, c)
			if err != nil {
				return err
			}
			return output.Print(res, res.Print)
		})
	}
	return cmd
}
