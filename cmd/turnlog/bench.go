package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
)

// benchFlags say what is measured.
type benchFlags struct {
	output    *cli.Choice
	sessions  int
	rounds    int
	transport *cli.Choice
	sync      bool
}

// benchResult is what the benchmark prints.
type benchResult struct {
	Sessions        int     `json:"sessions"`
	RoundtripsPerS  float64 `json:"roundtrips_per_s"`
	P50us           float64 `json:"p50_us"`
	P99us           float64 `json:"p99_us"`
	FloorPerS       float64 `json:"floor_per_s"`
	FloorP50us      float64 `json:"floor_p50_us"`
	ThroughputRatio float64 `json:"throughput_ratio"`
	LatencyRatio    float64 `json:"latency_ratio"`
}

func newBenchCommand(a *app) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure durable tool round trips beside what raw JetStream needs for them",
		Long: `Measures durable tool round trips (driver to worker and back) on an embedded server
with one-replica file streams, and beside it, in the same run, the floor: the same
JetStream operations with none of Turnlog's logic, which are one guarded entry, one
task, one result command and one guarded entry.

Quote the ratios: absolute numbers say more about the machine.`,
		Example: `  turnlog bench
  turnlog bench --sessions 1 --rounds 2000
  turnlog bench --sessions 128 --transport tcp -o json
  turnlog bench --sync`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return err
			}
			var res benchResult
			err := a.interruptible(cmd.Context(), func(ctx context.Context) (err error) {
				res, err = runBench(ctx, f)
				return err
			})
			if err != nil {
				return err
			}
			return res.print(cmd.OutOrStdout(), f.output.String())
		},
	}
	f.output = cli.OutputFlag(cmd, "text", "json")
	cmd.Flags().IntVar(&f.sessions, "sessions", 128, "sessions at once")
	cmd.Flags().IntVar(&f.rounds, "rounds", 200, "tool round trips per session")
	f.transport = cli.NewChoice("inproc", "tcp")
	f.transport.Register(cmd, "transport", "", "`way` to the server")
	cmd.Flags().BoolVar(&f.sync, "sync", false, "sync every write to disk")
	return cmd
}

func (f benchFlags) validate() error {
	switch {
	case f.sessions < 1 || f.sessions > 10_000:
		return usageError("--sessions %d: use 1 to 10,000", f.sessions)
	case f.rounds < 1 || f.rounds > 1_000_000:
		return usageError("--rounds %d: use 1 to 1,000,000", f.rounds)
	}
	return nil
}

func (r benchResult) print(w io.Writer, format string) error {
	if format == "json" {
		return json.NewEncoder(w).Encode(r)
	}
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

// runBench measures the floor before and after Turnlog and takes the mean of its
// two runs, so that a machine that drifts does not favour either.
func runBench(ctx context.Context, f benchFlags) (benchResult, error) {
	first, err := onServer(ctx, f, benchFloor)
	if err != nil {
		return benchResult{}, fmt.Errorf("bench floor: %w", err)
	}
	ours, err := onServer(ctx, f, benchTurnlog)
	if err != nil {
		return benchResult{}, fmt.Errorf("bench turnlog: %w", err)
	}
	second, err := onServer(ctx, f, benchFloor)
	if err != nil {
		return benchResult{}, fmt.Errorf("bench floor: %w", err)
	}
	floor := measured{
		took: first.took + second.took, trips: first.trips + second.trips, times: append(first.times, second.times...),
	}
	r := benchResult{
		Sessions:       f.sessions,
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
func onServer(ctx context.Context, f benchFlags, half func(context.Context, benchFlags, dial) (measured, error)) (measured, error) {
	dir, err := os.MkdirTemp("", "turnlog-bench-")
	if err != nil {
		return measured{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it lies in the system's own place for such things
	opts := []embedded.Option{embedded.WithStore(dir), embedded.WithLogger(zap.NewNop())}
	if f.transport.String() == "tcp" {
		opts = append(opts, embedded.WithListener("127.0.0.1:0"))
	}
	if f.sync {
		opts = append(opts, embedded.WithSync())
	}
	srv, err := embedded.Start(ctx, opts...)
	if err != nil {
		return measured{}, err
	}
	defer srv.Close()
	connect := func() (*nats.Conn, error) {
		if f.transport.String() == "tcp" {
			return nats.Connect(srv.ClientURL())
		}
		return srv.Connect()
	}
	return half(ctx, f, connect)
}
