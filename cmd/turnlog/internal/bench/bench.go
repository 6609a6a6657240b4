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
		Short: "Measure durable tool round trips, and what raw JetStream needs for them",
		Long: `Measures durable tool round trips (driver to worker and back) on an embedded server
with one-replica file streams, and in the same run two floors: the same JetStream
operations with none of Turnlog's logic, which are one guarded entry, one task, one
result command and one guarded entry. The floor stores the bytes and headers that
Turnlog stored; the lean floor stores entries of 400 bytes without headers.

Quote the ratios, which are Turnlog's figure divided by a floor's: absolute numbers
depend on the machine. CPU time and allocations are those of the whole process with
the server. Messages and bytes are those that node, worker and client send and receive.
The tool only reads; a call that must not run twice costs one more write. A call that
does not end ok fails the benchmark. With --local the node runs the tool, and the floors
stay as they are: what a call on a worker needs at least.`,
		Example: `  turnlog bench
  turnlog bench --runs 5
  turnlog bench --sessions 1 --rounds 2000
  turnlog bench --local
  turnlog bench --sessions 128 --transport tcp -o json
  turnlog bench --cpuprofile cpu.out && go tool pprof -top cpu.out`,
	}
	output := a.Output(cmd)
	fs := cmd.Flags()
	fs.IntVar(&c.Sessions, "sessions", 128, "concurrent sessions")
	fs.IntVar(&c.Rounds, "rounds", 200, "tool round trips per session")
	fs.IntVar(&c.Runs, "runs", 1, "runs of Turnlog and of the floors, in turn; the medians are printed")
	transport := cli.NewChoice("inproc", "tcp")
	transport.Register(cmd, "transport", "", "`way` to the server")
	fs.BoolVar(&c.Sync, "sync", false, "sync every write to disk")
	fs.BoolVar(&c.Local, "local", false, "let the node run the tool itself, without a task and a report")
	fs.StringVar(&c.CPUProfile, "cpuprofile", "", "write a profile of the CPU time of Turnlog's first run to `file`")
	fs.StringVar(&c.MemProfile, "memprofile", "", "write a profile of the allocations until the end of that run to `file`")
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
