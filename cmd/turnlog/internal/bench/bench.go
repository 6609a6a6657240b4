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
	"slices"
	"sync"
	"time"

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
	transport *cli.Choice
	sync      bool
}

// result is what the benchmark prints.
type result struct {
	Sessions        int     `json:"sessions"`
	RoundtripsPerS  float64 `json:"roundtrips_per_s"`
	P50us           float64 `json:"p50_us"`
	P99us           float64 `json:"p99_us"`
	FloorPerS       float64 `json:"floor_per_s"`
	FloorP50us      float64 `json:"floor_p50_us"`
	ThroughputRatio float64 `json:"throughput_ratio"`
	LatencyRatio    float64 `json:"latency_ratio"`
}

// Command returns the benchmark's command.
func Command(a *app.App) *cobra.Command {
	var b bench
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure durable tool round trips, and what raw JetStream needs for them",
		Long: `Measures durable tool round trips (driver to worker and back) on an embedded server
with one-replica file streams, and in the same run the floor: the same JetStream
operations with none of Turnlog's logic, which are one guarded entry, one task, one
result command and one guarded entry.

Quote the ratios: absolute numbers depend on the machine.`,
		Example: `  turnlog bench
  turnlog bench --sessions 1 --rounds 2000
  turnlog bench --sessions 128 --transport tcp -o json
  turnlog bench --sync`,
	}
	output := a.Output(cmd)
	cmd.Flags().IntVar(&b.sessions, "sessions", 128, "concurrent sessions")
	cmd.Flags().IntVar(&b.rounds, "rounds", 200, "tool round trips per session")
	b.transport = cli.NewChoice("inproc", "tcp")
	b.transport.Register(cmd, "transport", "", "`way` to the server")
	cmd.Flags().BoolVar(&b.sync, "sync", false, "sync every write to disk")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case b.sessions < 1 || b.sessions > 10_000:
			return cli.Usage("--sessions %d: use 1 to 10,000", b.sessions)
		case b.rounds < 1 || b.rounds > 1_000_000:
			return cli.Usage("--rounds %d: use 1 to 1,000,000", b.rounds)
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
	_, err := fmt.Fprintf(w, `%d sessions     turnlog    floor   ratio
round trips/s  %8.0f %8.0f  %6.2f
p50 us         %8.0f %8.0f  %6.2f
p99 us         %8.0f
`, r.Sessions, r.RoundtripsPerS, r.FloorPerS, r.ThroughputRatio, r.P50us, r.FloorP50us, r.LatencyRatio, r.P99us)
	return err
}

// measured is one half of the comparison.
type measured struct {
	took time.Duration

	mu    sync.Mutex
	trips []time.Duration // of each round trip
}

// trip adds a round trip that began at a time.
func (m *measured) trip(began time.Time) {
	took := time.Since(began)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trips = append(m.trips, took)
}

func (m *measured) perSecond() float64 { return float64(len(m.trips)) / m.took.Seconds() }

// quantile returns a quantile of the round trips in microseconds.
func (m *measured) quantile(q float64) float64 {
	slices.Sort(m.trips)
	i := min(int(q*float64(len(m.trips))), len(m.trips)-1)
	return float64(m.trips[i].Nanoseconds()) / 1000
}

// run measures Turnlog, then the floor, which stores the same bytes.
func (b bench) run(ctx context.Context) (result, error) {
	var ours, floor measured
	var stored sample
	err := b.onServer(ctx, func(ctx context.Context, nc [3]*nats.Conn) (err error) {
		stored, err = b.turnlog(ctx, nc, &ours)
		return err
	})
	if err != nil {
		return result{}, fmt.Errorf("bench turnlog: %w", err)
	}
	err = b.onServer(ctx, func(ctx context.Context, nc [3]*nats.Conn) error { return b.floor(ctx, nc, stored, &floor) })
	if err != nil {
		return result{}, fmt.Errorf("bench floor: %w", err)
	}
	r := result{
		Sessions:       b.sessions,
		RoundtripsPerS: ours.perSecond(), P50us: ours.quantile(0.5), P99us: ours.quantile(0.99),
		FloorPerS: floor.perSecond(), FloorP50us: floor.quantile(0.5),
	}
	r.ThroughputRatio = r.RoundtripsPerS / r.FloorPerS
	r.LatencyRatio = r.P50us / r.FloorP50us
	return r, nil
}

// onServer runs one half on a server of its own, with a connection for each of three
// processes.
func (b bench) onServer(ctx context.Context, half func(context.Context, [3]*nats.Conn) error) error {
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
	var conns [3]*nats.Conn
	for i := range conns {
		if tcp {
			conns[i], err = nats.Connect(srv.ClientURL())
		} else {
			conns[i], err = srv.Connect()
		}
		if err != nil {
			return err
		}
	}
	return half(ctx, conns)
}
