package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/internal/testing/torture"
)

// tortures holds the flags of the command.
type tortures struct {
	torture.Config

	app     *app.App
	servers natscli.Flags
	faults  []string
	given   func(flag string) bool
	output  app.Output
	logs    *cli.Log
}

// Torture returns the command that tests a deployment under faults.
func Torture(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "torture",
		Short: "Run sessions under injected faults, and check every guarantee",
		Long: `Runs many sessions on several nodes and workers and injects faults, by a plan that is derived
from the seed. Then it repairs everything, waits until the sessions are at rest, and audits
every journal. It also compares the journals with separate records of what clients were
promised, what observers saw, and what the tools did.

Without --server it starts a cluster of three NATS servers in this process, with files on
disk, and also stops and restarts those. With --server it uses that server, in a separate
namespace that it removes at the end, and injects only faults that a client can cause: it kills
its own nodes and workers, and cuts, slows and blocks its own connections. It also rolls back
its own streams, which needs the permissions of an administrator.

Streams other than the journals lose their newest messages, as after a power failure or a restore
from an old backup, or are deleted and created again. Only commands stored in that time may be
lost, and their senders send them again. Hostile clients and workers send invalid bytes, huge
inputs, forged reports and useless wakes, as far as the permissions of their role allow.

To kill a node or a worker, it is cut off permanently; the process is not killed. To stop a
server, it is shut down immediately and started again on its files.

The seed determines the faults and what every session does. It does not determine how threads,
sockets and disks interleave, so reproducing a failure may take several runs with its seed.

Ctrl-C ends the faults; the sessions still come to rest and are checked.

Exit codes: 0 every guarantee held, 1 one did not or the run failed, 2 wrong usage.`,
		Example: `  turnlog torture
  turnlog torture --duration 10m --sessions 100
  turnlog torture --seed 42 -o json
  turnlog torture --local
  turnlog torture --faults node_killed,server_stopped
  turnlog torture --server nats://127.0.0.1:4222`,
	}
	f := tortures{app: a}
	f.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.complete(); err != nil {
			return err
		}
		return f.run(cmd.Context())
	}
	return cmd
}

func (f *tortures) register(cmd *cobra.Command) {
	var kinds []string
	for _, k := range torture.Kinds() {
		kinds = append(kinds, string(k))
	}
	fs := cmd.Flags()
	fs.DurationVar(&f.Duration, "duration", 30*time.Second, "inject faults for this `time`")
	fs.Uint64Var(&f.Seed, "seed", 0, "`number` that the faults and the sessions are derived from; default: random")
	fs.IntVar(&f.Sessions, "sessions", 24, "`number` of concurrent sessions")
	fs.IntVar(&f.Nodes, "nodes", 3, "`number` of driver nodes")
	fs.IntVar(&f.Workers, "workers", 3, "`number` of tool workers")
	fs.BoolVar(&f.Local, "local", false, "let the nodes run the tools themselves; the workers stay idle")
	fs.DurationVar(&f.Rest, "rest", time.Minute, "`time` for the sessions to come to rest after the faults")
	fs.StringSliceVar(&f.faults, "faults", nil, "inject only these `kinds`: "+strings.Join(kinds, ", "))
	fs.IntVar(&f.Replicas, "replicas", 1, "`copies` of each stream on the servers of --server")
	f.servers.Register(fs, f.app.Getenv)
	f.output = f.app.Output(cmd)
	f.logs = cli.NewLog(cmd, zapcore.FatalLevel)
	f.given = fs.Changed
}

// complete sets the defaults, and checks all values.
func (f *tortures) complete() error {
	for _, k := range f.faults {
		f.Kinds = append(f.Kinds, torture.Kind(k))
	}
	if f.given("server") || f.given("context") { // the environment is not enough: it must be intentional
		f.Servers = &f.servers
	}
	if !f.given("seed") {
		f.Seed = rand.Uint64N(1_000_000) //nolint:gosec // short enough to be typed
	}
	switch {
	case min(f.Sessions, f.Nodes, f.Workers, f.Replicas) < 1:
		return cli.Usage("--sessions %d, --nodes %d, --workers %d, --replicas %d: use 1 or more", f.Sessions, f.Nodes, f.Workers, f.Replicas)
	case min(f.Duration, f.Rest) <= 0:
		return cli.Usage("--duration %v, --rest %v: use positive times", f.Duration, f.Rest)
	case f.Servers == nil && f.given("replicas"):
		return cli.Usage("--replicas is for the servers of --server: the cluster in this process has three")
	}
	if err := f.Validate(); err != nil {
		return cli.Usage("%w", err)
	}
	f.Logger = f.logs.Logger(f.app.Err, f.app.Getenv)
	return nil
}

// run tests the deployment and prints what happened.
func (f *tortures) run(ctx context.Context) error {
	stderr := f.app.Err
	if f.output.String() == "text" {
		_, _ = fmt.Fprintf(stderr, "seed %d\n", f.Seed)
		f.OnFault = func(x torture.Fault) { _, _ = fmt.Fprintln(stderr, x) }
	}
	var res torture.Result
	err := f.app.Interruptible(ctx, func(ctx context.Context) (err error) {
		res, err = torture.Run(ctx, f.Config)
		return err
	})
	if err == nil {
		err = f.output.Print(res, func(w io.Writer) error { return printTorture(w, res) })
	}
	if err != nil || res.OK() {
		return err
	}
	for _, v := range res.Found {
		_, _ = fmt.Fprintln(stderr, v)
	}
	return app.Failed(cli.CodeFailed, "%d violations with seed %d: journals and a log are in %s", len(res.Found), res.Seed, res.Kept)
}

func printTorture(w io.Writer, r torture.Result) error {
	return app.Fields(w, func(row func(name, format string, args ...any)) {
		row("seed", "%d", r.Seed)
		total := 0
		for _, n := range r.Faults {
			total += n
		}
		row("faults", "%d", total)
		for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
			row("  "+string(k), "%d", r.Faults[k])
		}
		row("commands accepted", "%d (%d were sent again after a rollback)", r.Commands, r.Repeated)
		row("sessions finished", "%d of %d (%d were set aside, and retried)", r.SessionsFinished, r.SessionsTotal, r.SetAside)
		row("entries", "%d", r.Entries)
		row("calls", "%d", r.Calls)
		row("recovery", "p50 %d ms, p99 %d ms, max %d ms (%d sessions lost their node)", r.Recovery.P50, r.Recovery.P99, r.Recovery.Max, r.Losses)
		row("violations", "%d of %d invariants", len(r.Violations), len(torture.Invariants()))
		for _, name := range slices.Sorted(maps.Keys(r.Violations)) {
			row("  "+name, "%d", r.Violations[name])
		}
	})
}
