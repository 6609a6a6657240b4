package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/audit/watch"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/backup"
)

func newWatchCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Verify all sessions while they run, and raise alerts",
		Long: `Follows the journals of all sessions and verifies each new entry: the chain of its session, and every
guarantee that "observer verify" checks. It needs no consumer on the server. It prints one line of JSON for
each alert:

  fault     a journal is invalid: "fault" describes the fault, as in "observer verify"; or a new version of the
            directory of keys contradicts an earlier one
  unsigned  with --keys-root, a host writes entries of a session without a signature
  widened   a host applied a policy to a session that allows more than the previous one
  restored  the deployment was restored from a backup; once for each restore, and once for each session that lost entries

With --cursor it stores its position in a file, and continues from there when it is started again; --from applies
only to the first start. Without --from it starts at the end. Every alert is raised at least once. After a restart or
an idle time, a session is not in memory: then it is verified from its first entry when it continues, so its faults may
be reported again. If active sessions have more entries than --memory allows, some journals are read again for each
entry: /metrics counts that.

With --once it ends when it has verified the entries that existed when it started: with exit code 1 if it raised
an alert, otherwise with 0. With --http, /metrics counts alerts in turnlog_observer_alerts_total, by kind.`,
		Example: `  observer watch --cursor watch.cursor --http 127.0.0.1:8080 >> alerts.jsonl
  observer watch --once --from 1
  observer watch | jq -c 'select(.alert == "fault")'`,
	}
	w := watching{app: a}
	w.register(cmd, "end when all existing entries are verified; exit with 1 if there was an alert")
	w.signatures.registerKeys(cmd)
	w.http = ops.AddressFlag(cmd)
	cmd.Flags().Uint32Var(&w.memory, "memory", 256, "`MiB` of memory for the entries of active sessions; if they have more, journals are read again")
	settings.Lasts(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := w.signatures.check(false); err != nil {
			return err
		}
		return a.with(cmd, func(cell *cli.Cell) error { return w.run(cmd, cell) })
	}
	return cmd
}

// watching is what the command line asks for.
type watching struct {
	following

	app    *app
	http   *string
	memory uint32

	signatures signatureFlags
}

// run watches until the context of cmd ends, or with once until the end.
func (w *watching) run(cmd *cobra.Command, cell *cli.Cell) error {
	registry := ops.NewRegistry()
	signers, contradiction := w.signatures.current(cmd.Context(), cell)
	if contradiction != nil && !errors.Is(contradiction, keys.ErrRolledBack) {
		return contradiction
	}
	raised := newMetrics(registry)
	read := whole(cell)
	watcher := watch.New(watch.Config{
		Keys: signers.keys, Bytes: int64(w.memory) << 20,
		Read: func(ctx context.Context, s content.SessionID) iter.Seq2[journal.Record, error] {
			raised.again.Inc()
			return read(ctx, s)
		},
		Restores: func(ctx context.Context) ([]verdict.Restore, error) { return backup.Restores(ctx, cell.Cell) },
	})
	out := &alerts{out: bufio.NewWriter(cmd.OutOrStdout()), watcher: watcher, signers: signers, raised: raised}
	if cli.IsTerminal(cmd.OutOrStdout()) {
		out.out = bufio.NewWriter(render.Terminal(cmd.OutOrStdout()))
	}
	if contradiction != nil {
		if err := out.contradiction(journal.Record{}, contradiction); err != nil {
			return err
		}
	}
	w.measure(cmd.Context(), cell, registry)
	log := w.app.log.Logger(cmd.ErrOrStderr(), w.app.getenv)
	server, err := ops.Listen(cmd.Context(), *w.http, registry, cell.Ready(func() error { return nil }), log)
	if err != nil {
		return err
	}
	if err := cell.Work(cmd.Context(), server.Run, func(ctx context.Context) error { return w.follow(ctx, cell, out) }); err != nil {
		return err
	}
	if w.once && out.count > 0 {
		return fmt.Errorf("%s", render.Plural(out.count, "alert was raised", "alerts were raised"))
	}
	return nil
}

// follow verifies entries from the cursor on.
func (w *watching) follow(ctx context.Context, cell *cli.Cell, out *alerts) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel()
	from, end, err := w.begin(ctx, cell)
	switch {
	case errors.Is(err, jetstream.ErrCursor):
		return out.gone(from, err)
	case err != nil, w.once && from.Position >= end.Position:
		return err
	}
	defer func() { err = errors.Join(err, w.cursor.store()) }()
	all := make(chan update)
	ended := entries(ctx, &sources, cell, jetstream.AllSessions, from, all)
	err = w.cursor.follow(ctx, all, ended, func(u update) error {
		if err := out.add(ctx, u.rec); err != nil {
			return err
		}
		if w.once && u.rec.Guard >= end.Position {
			w.cursor.move(jetstream.CursorAt(u.rec))
			return errEnd
		}
		return nil
	})
	switch {
	case err == nil:
		err = w.stopped(ctx)
	case errors.Is(err, errEnd):
		err = out.print(out.watcher.Close(ctx))
	case errors.Is(err, jetstream.ErrCursor):
		err = out.gone(from, err)
	}
	return err
}

// errEnd ends a watch at the end that the journal had at its start.
var errEnd = errors.New("the end")

// alerts prints and counts alerts.
type alerts struct {
	out     *bufio.Writer
	watcher *watch.Watcher
	signers currentKeys
	raised  metrics
	count   int
}

func (a *alerts) add(ctx context.Context, r journal.Record) error {
	err := a.signers.follow(ctx, r)
	if errors.Is(err, keys.ErrRolledBack) {
		err = a.contradiction(r, err)
	}
	if err != nil {
		return err
	}
	raised, err := a.watcher.Add(ctx, r)
	if err != nil {
		return err
	}
	a.raised.entries.Inc()
	a.raised.sessions.Set(float64(a.watcher.Open()))
	return a.print(raised)
}

// gone raises an alert because the entry of a cursor no longer exists, and returns the reason as an error.
func (a *alerts) gone(at jetstream.Cursor, why error) error {
	fault := verdict.Fault{Kind: verdict.RolledBack, Seq: at.Seq, What: "the entry at which the watch stopped is missing or different"}
	alert := watch.Alert{Kind: watch.Fault, Session: at.Session, Seq: at.Seq, Position: at.Position, Fault: &fault, What: why.Error()}
	return errors.Join(why, a.print([]watch.Alert{alert}))
}

// contradiction raises an alert because the root of the keys contradicts itself. r is the record that was about to be checked.
func (a *alerts) contradiction(r journal.Record, why error) error {
	fault := verdict.Fault{Kind: verdict.RolledBack, What: why.Error()}
	return a.print([]watch.Alert{{Kind: watch.Fault, Position: r.Guard, Fault: &fault, What: "a version of the directory of keys contradicts an earlier one"}})
}

func (a *alerts) print(raised []watch.Alert) error {
	for _, alert := range raised {
		a.count++
		a.raised.alerts.WithLabelValues(string(alert.Kind)).Inc()
		raw, err := json.Marshal(alert)
		if err == nil {
			_, err = a.out.Write(append(raw, '\n'))
		}
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	if err := a.out.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// metrics are those of a watch.
type metrics struct {
	alerts   *prometheus.CounterVec
	entries  prometheus.Counter
	again    prometheus.Counter
	sessions prometheus.Gauge
}

// newMetrics registers metrics that are all zero. Known label values exist from the start.
func newMetrics(r *prometheus.Registry) metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "turnlog", Subsystem: "observer", Name: name, Help: help}
	}
	with := promauto.With(r)
	m := metrics{
		alerts:   with.NewCounterVec(prometheus.CounterOpts(opts("alerts_total", "Alerts raised, by kind: fault, unsigned, widened, restored.")), []string{"kind"}),
		entries:  with.NewCounter(prometheus.CounterOpts(opts("entries_total", "Entries verified."))),
		again:    with.NewCounter(prometheus.CounterOpts(opts("journals_read_total", "Journals that were read from their first entry, because their session was not in memory."))),
		sessions: with.NewGauge(prometheus.GaugeOpts(opts("sessions", "Sessions whose checker is in memory."))),
	}
	for _, k := range watch.Kinds() {
		m.alerts.WithLabelValues(string(k))
	}
	return m
}
