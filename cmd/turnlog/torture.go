package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/internal/testing/torture"
)

// tortureFlags say what is tortured, and how.
type tortureFlags struct {
	config  torture.Config
	faults  []string
	servers natscli.Flags
	output  *cli.Choice
	log     *cli.Log
}

func newTortureCommand(a *app) *cobra.Command {
	var f tortureFlags
	cmd := &cobra.Command{
		Use:   "torture",
		Short: "Run sessions while nodes, workers, servers and connections fail, and check every promise",
		Long: `Runs many sessions on several nodes and workers while faults happen to them, by a plan that
the seed decides. Then everything is mended, the sessions come to rest, every journal is
audited, and what the journals say is compared with what clients were promised, what
observers saw, and what the tools did, each of which kept a record of its own.

Without --server it starts a cluster of three NATS servers in this process, with files on
disk, and stops and restarts those too. With --server it uses yours, in a namespace of its
own that it takes away at the end, and causes only what a client can cause: it kills its
own nodes and workers, and cuts, slows and deafens its own connections.

A killed node or worker is one of this process that is cut off for good, not a killed
process. A stopped server is shut down at once and started again on its files.

The seed decides the faults and what every session does. It cannot decide how threads,
sockets and disks interleave, so the same seed may have to be run several times before the
same thing goes wrong.

Ctrl-C ends the faults; the sessions still come to rest and are checked.

Exit codes: 0 every promise was kept, 1 one was not or the run could not be made, 2 usage.`,
		Example: `  turnlog torture
  turnlog torture --duration 10m --sessions 100
  turnlog torture --seed 42 -o json
  turnlog torture --faults node_killed,server_stopped
  turnlog torture --server nats://127.0.0.1:4222`,
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	fs.DurationVar(&f.config.Duration, "duration", 30*time.Second, "`time` for which faults happen")
	fs.Uint64Var(&f.config.Seed, "seed", 0, "`number` that decides what happens; default: a random one")
	fs.IntVar(&f.config.Sessions, "sessions", 24, "sessions at once")
	fs.IntVar(&f.config.Nodes, "nodes", 3, "driver nodes")
	fs.IntVar(&f.config.Workers, "workers", 3, "tool workers")
	fs.DurationVar(&f.config.Rest, "rest", time.Minute, "`time` that sessions have to come to rest behind the faults")
	fs.StringSliceVar(&f.faults, "faults", nil, "only these `kinds`: "+strings.Join(kindNames(torture.Kinds()), ", "))
	fs.IntVar(&f.config.Replicas, "replicas", 1, "`copies` of each stream on the servers of --server")
	f.servers.Register(fs, a.getenv)
	f.output = cli.OutputFlag(cmd, "text", "json")
	f.log = cli.NewLog(cmd, zapcore.FatalLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.torture(cmd.Context(), f, cmd.Flags().Changed)
	}
	return cmd
}

func (a *app) torture(ctx context.Context, f tortureFlags, given func(string) bool) error {
	c := f.config
	for _, k := range f.faults {
		c.Kinds = append(c.Kinds, torture.Kind(k))
	}
	for name, n := range map[string]int{"sessions": c.Sessions, "nodes": c.Nodes, "workers": c.Workers, "replicas": c.Replicas} {
		if n < 1 {
			return usageError("--%s %d: use 1 or more", name, n)
		}
	}
	for name, d := range map[string]time.Duration{"duration": c.Duration, "rest": c.Rest} {
		if d <= 0 {
			return usageError("--%s %v: use a positive time", name, d)
		}
	}
	if given("server") || given("context") { // not by the environment: it has to be meant
		c.Servers = &f.servers
	}
	if c.Servers == nil && given("replicas") {
		return usageError("--replicas is for the servers of --server: the cluster in this process keeps three")
	}
	if err := c.Validate(); err != nil {
		return usageError("%w", err)
	}
	if !given("seed") {
		c.Seed = rand.Uint64N(1_000_000) //nolint:gosec // short enough to be typed
	}
	c.Logger = f.log.Logger(a.term.err, a.getenv)
	text := f.output.String() == "text"
	if text {
		_, _ = fmt.Fprintf(a.term.err, "seed %d\n", c.Seed)
		c.Told = func(x torture.Fault) { _, _ = fmt.Fprintln(a.term.err, x) }
	}
	var res torture.Result
	err := a.interruptible(ctx, func(ctx context.Context) (err error) {
		res, err = torture.Run(ctx, c)
		return err
	})
	if err != nil {
		return err
	}
	if text {
		err = printTorture(a.term.out, res)
	} else {
		err = json.NewEncoder(a.term.out).Encode(res)
	}
	if err != nil || res.OK() {
		return err
	}
	for _, v := range res.Found {
		_, _ = fmt.Fprintln(a.term.err, v)
	}
	return exitError(cli.CodeFailed, "%d violations: journals and a log are in %s", len(res.Found), res.Kept)
}

// printTorture prints the result for people.
func printTorture(w io.Writer, r torture.Result) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-20s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("seed", "%d", r.Seed)
	total := 0
	for _, n := range r.Faults {
		total += n
	}
	row("faults", "%d", total)
	for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
		row("  "+string(k), "%d", r.Faults[k])
	}
	row("commands accepted", "%d", r.Commands)
	row("sessions finished", "%d of %d", r.SessionsFinished, r.SessionsTotal)
	row("entries", "%d", r.Entries)
	row("calls", "%d", r.Calls)
	row("recovery", "p50 %d ms, p99 %d ms, max %d ms (%d sessions lost their node)", r.Recovery.P50, r.Recovery.P99, r.Recovery.Max, r.Losses)
	row("violations", "%d of %d invariants", len(r.Violations), len(torture.Invariants()))
	for _, name := range slices.Sorted(maps.Keys(r.Violations)) {
		row("  "+name, "%d", r.Violations[name])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func kindNames(all []torture.Kind) []string {
	out := make([]string, len(all))
	for i, k := range all {
		out[i] = string(k)
	}
	return out
}
