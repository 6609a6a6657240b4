// Package bench measures durable tool round trips. "turnlog bench" runs it.
//
// A number is meaningful only next to its lower bound. So the benchmark also measures its
// floor, in the same run and on the same machine: the same JetStream operations without
// any of Turnlog's logic.
package bench

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/embedded"
)

// Config says what to measure.
type Config struct {
	Sessions int  // number of concurrent sessions
	Rounds   int  // tool round trips of each session
	Runs     int  // runs of Turnlog and of the floors, in turn
	TCP      bool // connect through sockets instead of in the process
	Sync     bool // sync every write to disk
	Local    bool // the node runs the tool itself

	CPUProfile string // file for a profile of the CPU time of Turnlog's first run; "": none
	MemProfile string // file for a profile of the allocations until the end of that run; "": none
}

// Result has the medians of the runs, and Turnlog's medians as multiples of each floor's.
type Result struct {
	Sessions int     `json:"sessions"`
	Rounds   int     `json:"rounds"`
	Runs     int     `json:"runs"`
	Turnlog  Figures `json:"turnlog"`
	Floor    Figures `json:"floor"`
	Lean     Figures `json:"lean_floor"`
	Ratio    Figures `json:"ratio"`
	ToLean   Figures `json:"ratio_lean"`
}

// Run measures Turnlog and then the floors, as often as the configuration says.
func Run(ctx context.Context, c Config) (Result, error) { return bench{c}.run(ctx) }

// Print writes the result as a table.
func (r Result) Print(w io.Writer) error {
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

// bench is a running benchmark.
type bench struct{ Config }

func (b bench) run(ctx context.Context) (Result, error) {
	var ours, floors, leans []Figures
	for n := range b.Runs {
		var stored sample
		side := func(name string, all *[]Figures, measure func(context.Context, *meter) error) error {
			m := &meter{}
			if n == 0 && all == &ours {
				m.profiles = &profiles{cpu: b.CPUProfile, memory: b.MemProfile}
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
			err = side("lean floor", &leans, func(ctx context.Context, m *meter) error { return b.floor(ctx, m, minimal()) })
		}
		if err != nil {
			return Result{}, err
		}
	}
	r := Result{
		Sessions: b.Sessions, Rounds: b.Rounds, Runs: b.Runs,
		Turnlog: medians(ours), Floor: medians(floors), Lean: medians(leans),
	}
	r.Ratio, r.ToLean = r.Turnlog.over(r.Floor), r.Turnlog.over(r.Lean)
	return r, nil
}

// onServer measures one side on its own server, with a connection for each of three processes.
func (b bench) onServer(ctx context.Context, m *meter, side func(context.Context, *meter) error) error {
	dir, err := os.MkdirTemp("", "turnlog-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	opts := []embedded.Option{embedded.WithStore(dir), embedded.WithLogger(zap.NewNop())}
	if b.TCP {
		opts = append(opts, embedded.WithListener("127.0.0.1:0"))
	}
	if b.Sync {
		opts = append(opts, embedded.WithSync())
	}
	srv, err := embedded.Start(ctx, opts...)
	if err != nil {
		return err
	}
	defer srv.Close()
	for range 3 {
		var nc *nats.Conn
		if b.TCP {
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
