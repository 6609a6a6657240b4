// Package bench holds the commands that measure Turnlog and test it under faults.
//
// The one idea: a number means something only next to what it costs at least, so
// the benchmark also measures its floor: the same JetStream operations without any
// of Turnlog's logic, in the same run and on the same machine.
package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
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
	took  time.Duration
	trips int
	times []time.Duration // of each round trip
}

func (m measured) perSecond() float64 { return float64(m.trips) / m.took.Seconds() }

func (m measured) quantile(q float64) float64 {
	if len(m.times) == 0 {
		return 0
	}
	slices.Sort(m.times)
	i := min(int(q*float64(len(m.times))), len(m.times)-1)
	return float64(m.times[i].Nanoseconds()) / 1000
}

// run measures Turnlog, then the floor, which stores the same bytes.
func (b bench) run(ctx context.Context) (result, error) {
	var stored sample
	ours, err := b.onServer(ctx, func(ctx context.Context, connect dial) (m measured, err error) {
		m, stored, err = b.turnlog(ctx, connect)
		return m, err
	})
	if err != nil {
		return result{}, fmt.Errorf("bench turnlog: %w", err)
	}
	floor, err := b.onServer(ctx, func(ctx context.Context, connect dial) (measured, error) { return b.floor(ctx, connect, stored) })
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

// dial opens a connection of the benchmark's transport.
type dial func() (*nats.Conn, error)

// onServer runs one half on a server of its own.
func (b bench) onServer(ctx context.Context, half func(context.Context, dial) (measured, error)) (measured, error) {
	dir, err := os.MkdirTemp("", "turnlog-bench-")
	if err != nil {
		return measured{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	opts := []embedded.Option{embedded.WithStore(dir), embedded.WithLogger(zap.NewNop())}
	if b.transport.String() == "tcp" {
		opts = append(opts, embedded.WithListener("127.0.0.1:0"))
	}
	if b.sync {
		opts = append(opts, embedded.WithSync())
	}
	srv, err := embedded.Start(ctx, opts...)
	if err != nil {
		return measured{}, err
	}
	defer srv.Close()
	connect := func() (*nats.Conn, error) { return srv.Connect() }
	if b.transport.String() == "tcp" {
		connect = func() (*nats.Conn, error) { return nats.Connect(srv.ClientURL()) }
	}
	return half(ctx, connect)
}
