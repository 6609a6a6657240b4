// Package bench holds the commands that measure Turnlog and test it under faults.
//
// The one idea: a number means something only next to its lower bound. So the benchmark
// also measures its floor, in the same run and on the same machine: the same JetStream
// operations without any of Turnlog's logic.
package bench

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
)

// bench is what its flags say.
type bench struct {
	sessions  int
	rounds    int
	runs      int
	transport *cli.Choice
	sync      bool
	local     bool
	profiles  profiles
}

// result is what the benchmark prints: medians, and Turnlog's as multiples of each floor's.
type result struct {
	Sessions int     `json:"sessions"`
	Rounds   int     `json:"rounds"`
	Runs     int     `json:"runs"`
	Turnlog  figures `json:"turnlog"`
	Floor    figures `json:"floor"`
	Lean     figures `json:"lean_floor"`
	Ratio    figures `json:"ratio"`
	ToLean   figures `json:"ratio_lean"`
}

// Command returns the benchmark's command.
func Command(a *app.App) *cobra.Command {
	var b bench
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
	cmd.Flags().IntVar(&b.sessions, "sessions", 128, "concurrent sessions")
	cmd.Flags().IntVar(&b.rounds, "rounds", 200, "tool round trips per session")
	cmd.Flags().IntVar(&b.runs, "runs", 1, "runs of Turnlog and of the floors, in turn; the medians are printed")
	b.transport = cli.NewChoice("inproc", "tcp")
	b.transport.Register(cmd, "transport", "", "`way` to the server")
	cmd.Flags().BoolVar(&b.sync, "sync", false, "sync every write to disk")
	cmd.Flags().BoolVar(&b.local, "local", false, "let the node run the tool itself, without a task and a report")
	cmd.Flags().StringVar(&b.profiles.cpu, "cpuprofile", "", "write a profile of the CPU time of Turnlog's first run to `file`")
	cmd.Flags().StringVar(&b.profiles.memory, "memprofile", "", "write a profile of the allocations until the end of that run to `file`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case b.sessions < 1 || b.sessions > 10_000:
			return cli.Usage("--sessions %d: use 1 to 10,000", b.sessions)
		case b.rounds < 1 || b.rounds > 1_000_000:
			return cli.Usage("--rounds %d: use 1 to 1,000,000", b.rounds)
		case b.runs < 1 || b.runs > 1000:
			return cli.Usage("--runs %d: use 1 to 1,000", b.runs)
		}
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			res, err := b.run(ctx)
			if err != nil {
				return err
			}
			return output.Print(res, res.print)
		})
	}
	return cmd
}

func (r result) print(w io.Writer) error {
	heading := fmt.Sprintf("%d sessions", r.Sessions)
	if r.Runs > 1 {
		heading += fmt.Sprintf(", %d runs", r.Runs)
	}
	_, err := fmt.Fprintf(w, "%-22s%9s%9s%8s%12s%8s\n", heading, "turnlog", "floor", "ratio", "lean floor", "ratio")
	for i, name := range []string{"round trips/s", "p50 us", "p99 us", "CPU us/trip", "allocations/trip", "messages/trip", "bytes/trip"} {
		if err == nil {
			_, err = fmt.Fprintf(w, "%-22s%9.0f%9.0f%8.2f%12.0f%8.2f\n", name,
				*r.Turnlog.fields()[i], *r.Floor.fields()[i], *r.Ratio.fields()[i], *r.Lean.fields()[i], *r.ToLean.fields()[i])
		}
	}
	return err
}

// run measures Turnlog and then the floors, as often as the flag says.
func (b bench) run(ctx context.Context) (result, error) {
	var ours, floors, leans []figures
	for n := range b.runs {
		var stored sample
		side := func(name string, all *[]figures, measure func(context.Context, *meter) error) error {
			m := &meter{}
			if n == 0 && all == &ours {
				m.profiles = &b.profiles
			}
			if err := b.onServer(ctx, m, measure); err != nil {
				return fmt.Errorf("bench %s: %w", name, err)
			}
			*all = append(*all, m.cost)
			return nil
		}
		err := side("turnlog", &ours, func(ctx context.Context, m *meter) (err error) {
			stored, err = b.turnlog(ctx, m)
			return err
		})
		if err == nil {
			err = side("floor", &floors, func(ctx context.Context, m *meter) error { return b.floor(ctx, m, stored) })
		}
		if err == nil {
			err = side("lean floor", &leans, func(ctx context.Context, m *meter) error { return b.floor(ctx, m, lean()) })
		}
		if err != nil {
			return result{}, err
		}
	}
	r := result{
		Sessions: b.sessions, Rounds: b.rounds, Runs: b.runs,
		Turnlog: medians(ours), Floor: medians(floors), Lean: medians(leans),
	}
	r.Ratio, r.ToLean = r.Turnlog.over(r.Floor), r.Turnlog.over(r.Lean)
	return r, nil
}

// onServer measures one side on a server of its own, with a connection for each of three
// processes.
func (b bench) onServer(ctx context.Context, m *meter, side func(context.Context, *meter) error) error {
	dir, err := os.MkdirTemp("", "turnlog-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	opts := []embedded.Option{embedded.WithStore(dir), embedded.WithLogger(zap.NewNop())}
	tcp := b.transport.String() == "tcp"
	if tcp {
		opts = append(opts, embedded.WithListener("127.0.0.1:0"))
	}
	if b.sync {
		opts = append(opts, embedded.WithSync())
	}
	srv, err := embedded.Start(ctx, opts...)
	if err != nil {
		return err
	}
	defer srv.Close()
	for range 3 {
		var nc *nats.Conn
		if tcp {
			nc, err = nats.Connect(srv.ClientURL())
		} else {
			nc, err = srv.Connect()
		}
		if err != nil {
			return err
		}
		m.conns = append(m.conns, nc)
	}
	return side(ctx, m)
}
