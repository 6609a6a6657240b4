package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
)

func newTailCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail [SESSION]",
		Short: "Follow the journal of a session, or of all sessions",
		Long: `Shows entries of one session, or of all, as they are written, without gaps or repetitions, until it
is interrupted. It survives the loss of servers and connections.

For one session --from is the sequence of an entry. For all sessions it is a position in the
deployment's whole journal, which -o jsonl prints with every entry.

With --cursor it stores its position in a file, and continues from there when it is started
again; --from applies only to the first start. Every entry is shown at least once: entries that were
written in the meantime come first, and after a kill those of the last quarter of a second may be
repeated. Live events have no position. Only one tail at a time can use a file.`,
		Example: `  observer tail
  observer tail s-42 --from 1
  observer tail --from 1 --cursor audit.cursor -o jsonl >> audit.jsonl
  observer tail s-42 --deltas
  observer tail -o jsonl | jq -c 'select(.kinds[] == "run_failed")'`,
	}
	t := tail{app: a}
	cmd.Flags().Uint64Var(&t.from, "from", 0, "start at this `sequence` instead of the end")
	cmd.Flags().StringVar(&t.cursor.path, "cursor", "", "store the position in this `file`, and continue from it")
	_ = cmd.MarkFlagFilename("cursor") // the flag exists
	cmd.Flags().BoolVar(&t.deltas, "deltas", false, "also show live events: pieces of replies, progress, rejected commands")
	t.full = fullFlag(cmd)
	t.output = cli.OutputFlag(cmd, asText, asLines)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t.session = jetstream.AllSessions
		if len(args) > 0 {
			var err error
			if t.session, err = cli.ParseSession(args[0]); err != nil {
				return err
			}
		}
		return a.with(cmd, func(cell *cli.Cell) error { return t.run(cmd, cell) })
	}
	return cmd
}

// tail is what the command line asks for.
type tail struct {
	app     *app
	session content.SessionID
	from    uint64 // 0: the end
	cursor  bookmark
	deltas  bool
	full    *bool
	output  *cli.Choice
}

func (t *tail) all() bool { return t.session == jetstream.AllSessions }

// update is an entry or a live event.
type update struct {
	rec     journal.Record
	session content.SessionID
	live    events.Event // nil: rec is an entry
}

// run shows updates until the context of cmd ends.
func (t *tail) run(cmd *cobra.Command, cell *cli.Cell) (err error) {
	ctx, cancel := context.WithCancel(cmd.Context())
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel()

	var live iter.Seq2[content.SessionID, events.Event]
	if t.deltas { // before the entries, so that nothing is missed
		if live, err = cell.Live().Subscribe(ctx, t.session); err != nil {
			return err
		}
	}
	from, err := t.begin(ctx, cell)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.cursor.store()) }()
	all := make(chan update)
	ended := entries(ctx, &sources, cell, t.session, from, all)
	if live != nil {
		sources.Go(func() {
			for s, ev := range live {
				if !pass(ctx, update{session: s, live: ev}, all) {
					return
				}
			}
		})
	}

	out := newSink(cmd, t.output.String(), t.app.style(cmd, *t.full), t.all())
	return t.cursor.follow(ctx, all, ended, out.update)
}

// entries passes entries after a cursor to out, in a goroutine of sources, until ctx ends. Then ended
// receives the reason.
func entries(
	ctx context.Context, sources *sync.WaitGroup, cell *cli.Cell, s content.SessionID, from jetstream.Cursor, out chan<- update,
) (ended <-chan error) {
	return source(ctx, sources, cell.Journal().Observe(ctx, s, from), out)
}

// source is entries of a sequence.
func source(ctx context.Context, sources *sync.WaitGroup, all iter.Seq2[journal.Record, error], out chan<- update) (ended <-chan error) {
	why := make(chan error, 1) // its reader may be gone
	sources.Go(func() {
		for rec, err := range all {
			if err != nil || !pass(ctx, update{rec: rec}, out) {
				why <- err
				return
			}
		}
		why <- nil
	})
	return why
}

// pass sends an update and reports whether ctx is still valid.
func pass(ctx context.Context, u update, out chan<- update) bool {
	select {
	case out <- u:
		return true
	case <-ctx.Done():
		return false
	}
}

// begin returns where to start: at the stored cursor, or as the flags say.
func (t *tail) begin(ctx context.Context, cell *cli.Cell) (jetstream.Cursor, error) {
	t.cursor.Namespace, t.cursor.Of = cell.Namespace(), t.session
	at, stored, err := t.cursor.load()
	if err != nil || stored {
		return at, err
	}
	if at, err = t.first(ctx, cell); err != nil {
		return at, err
	}
	t.cursor.move(at)
	return at, t.cursor.store() // entries written from now on are shown even after a crash
}

// first returns where the flags say to start.
func (t *tail) first(ctx context.Context, cell *cli.Cell) (jetstream.Cursor, error) {
	if !t.all() {
		if _, err := last(ctx, cell, t.session); err != nil {
			return jetstream.Cursor{}, err
		}
	}
	switch {
	case t.from == 0:
		return cell.Journal().End(ctx, t.session)
	case t.all():
		return jetstream.Cursor{Position: t.from - 1}, nil
	}
	return jetstream.Cursor{Session: t.session, Seq: t.from - 1}, nil
}

// following says where a command that follows all sessions begins, and whether it ends.
type following struct {
	from   uint64 // 0: the end
	cursor bookmark
	once   bool
}

// register adds the flags. once says what --once does.
func (f *following) register(cmd *cobra.Command, once string) {
	cmd.Flags().Uint64Var(&f.from, "from", 0, "start at this `position` in the deployment's whole journal instead of the end")
	cmd.Flags().StringVar(&f.cursor.path, "cursor", "", "store the position in this `file`, and continue from it")
	_ = cmd.MarkFlagFilename("cursor") // the flag exists
	cmd.Flags().BoolVar(&f.once, "once", false, once)
}

// begin returns where to start, and with --once the current end. It returns ErrCursor if the entry of the cursor no longer
// exists.
func (f *following) begin(ctx context.Context, cell *cli.Cell) (at, end jetstream.Cursor, err error) {
	t := tail{session: jetstream.AllSessions, from: f.from, cursor: f.cursor}
	at, err = t.begin(ctx, cell)
	f.cursor = t.cursor
	if f.cursor.position != nil {
		f.cursor.position.Store(at.Position)
	}
	if err != nil || !f.once {
		return at, end, err
	}
	end, err = cell.Journal().End(ctx, jetstream.AllSessions)
	if err == nil && !at.Hash.IsZero() && (at.Position > end.Position || at.Position == end.Position && at.Hash != end.Hash) {
		err = fmt.Errorf("%w: the last entry is at position %d", jetstream.ErrCursor, end.Position)
	}
	return at, end, err
}

// lagTimeout bounds the request for the end of the journal.
const lagTimeout = 2 * time.Second

// measure registers a metric for how many entries the command must still read.
func (f *following) measure(ctx context.Context, cell *cli.Cell, registry *prometheus.Registry) {
	f.cursor.position = &atomic.Uint64{}
	at := f.cursor.position
	promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "turnlog", Subsystem: "observer", Name: "lag_entries", Help: "Entries of the journal that are not read yet; NaN if unknown.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(ctx, lagTimeout)
		defer cancel()
		before := at.Load()
		end, err := cell.Journal().End(ctx, jetstream.AllSessions)
		if err != nil {
			return math.NaN()
		}
		return float64(end.Position - min(before, end.Position))
	})
}

// stopped returns the result of a command whose context has ended. With --once that is an error: the command has not
// finished.
func (f *following) stopped(ctx context.Context) error {
	if !f.once {
		return nil
	}
	return context.Cause(ctx)
}

// whole returns the function that reads the journals of sessions from their first entries on.
func whole(cell *cli.Cell) func(context.Context, content.SessionID) iter.Seq2[journal.Record, error] {
	return func(ctx context.Context, s content.SessionID) iter.Seq2[journal.Record, error] {
		return cell.Journal().Read(ctx, s, 0)
	}
}
