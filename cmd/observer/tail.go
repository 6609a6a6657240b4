package main

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/journal"
)

func newTailCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail [SESSION]",
		Short: "Follow the journal of a session, or those of all",
		Long: `Shows entries as they are written, without gap or repetition, until it is interrupted: those of
one session, or of all. It goes on through the loss of servers and connections.

For one session --from is the sequence of an entry. For all sessions it is a position in the
deployment's whole journal, which -o jsonl shows with every entry.`,
		Example: `  observer tail
  observer tail s-42 --from 1
  observer tail s-42 --deltas
  observer tail -o jsonl | jq -c 'select(.kinds[] == "run_failed")'`,
	}
	t := tail{app: a}
	cmd.Flags().Uint64Var(&t.from, "from", 0, "begin with this `sequence` instead of what comes next")
	cmd.Flags().BoolVar(&t.deltas, "deltas", false, "show what is only live too: pieces of replies, progress, refusals")
	t.full = fullFlag(cmd)
	t.output = cli.OutputFlag(cmd, asText, asLines)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t.session = jetstream.AllSessions
		if len(args) > 0 {
			var err error
			if t.session, err = parseSession(args[0]); err != nil {
				return err
			}
		}
		cell, err := a.open(cmd)
		if err != nil {
			return err
		}
		defer cell.Close()
		return t.run(cmd, cell)
	}
	return cmd
}

// tail is what the command is asked for.
type tail struct {
	app     *app
	session content.SessionID
	from    uint64 // 0: what comes next
	deltas  bool
	full    *bool
	output  *cli.Choice
}

func (t *tail) all() bool { return t.session == jetstream.AllSessions }

// news is an entry or a live event.
type news struct {
	rec     journal.Record
	session content.SessionID
	live    events.Event // nil: an entry
}

// run shows what comes until the context of cmd ends.
func (t *tail) run(cmd *cobra.Command, cell *cli.Cell) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel()

	live, err := t.live(ctx, cell) // before the entries: nothing is to fall between
	if err != nil {
		return err
	}
	entries, err := t.entries(ctx, cell)
	if err != nil {
		return err
	}
	all := make(chan news)
	ended := make(chan error, 1) // nobody may be left to hear it
	sources.Go(func() { ended <- passEntries(ctx, entries, all) })
	sources.Go(func() { passLive(ctx, live, all) })

	out := newSink(cmd, t.output.String(), t.app.style(cmd, *t.full), t.all())
	for {
		select {
		case n := <-all:
			if err := out.news(n); err != nil {
				return err
			}
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

func passEntries(ctx context.Context, entries iter.Seq2[journal.Record, error], out chan<- news) error {
	for rec, err := range entries {
		if err != nil {
			return err
		}
		select {
		case out <- news{rec: rec}:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func passLive(ctx context.Context, live iter.Seq2[content.SessionID, events.Event], out chan<- news) {
	for s, ev := range live {
		select {
		case out <- news{session: s, live: ev}:
		case <-ctx.Done():
			return
		}
	}
}

// live listens to what is in no journal, if that is wanted.
func (t *tail) live(ctx context.Context, cell *cli.Cell) (iter.Seq2[content.SessionID, events.Event], error) {
	if !t.deltas {
		return func(func(content.SessionID, events.Event) bool) {}, nil
	}
	return cell.Live().Subscribe(ctx, t.session)
}

// entries follows the journal of the session, or those of all.
func (t *tail) entries(ctx context.Context, cell *cli.Cell) (iter.Seq2[journal.Record, error], error) {
	j := cell.Journal()
	if t.all() {
		return everything(ctx, j, t.from), nil
	}
	end, err := last(ctx, cell, t.session)
	if err != nil {
		return nil, err
	}
	after := end.Seq
	if t.from > 0 {
		after = t.from - 1
	}
	return j.Follow(ctx, t.session, after), nil
}

// everything follows the journals of all sessions from a position of the store on,
// or what comes next if that is 0.
func everything(ctx context.Context, j *jetstream.Journal, from uint64) iter.Seq2[journal.Record, error] {
	if from != 1 {
		return j.FollowAll(ctx, max(from, 1)-1)
	}
	// FollowAll begins behind a position, and there is none before the first.
	return func(yield func(journal.Record, error) bool) {
		first, err := beginning(ctx, j)
		if err != nil {
			yield(journal.Record{}, err)
			return
		}
		if first.Guard == 1 && !yield(first, nil) {
			return
		}
		j.FollowAll(ctx, 1)(yield)
	}
}

// beginning returns the oldest of the sessions' first entries.
func beginning(ctx context.Context, j *jetstream.Journal) (journal.Record, error) {
	var oldest journal.Record
	sessions, err := j.Sessions(ctx)
	if err != nil {
		return oldest, err
	}
	for _, s := range sessions {
		for rec, err := range j.Read(ctx, s, 0) {
			if errors.Is(err, journal.ErrDamaged) {
				rec.Err, err = err, nil // not the end of the other sessions
			}
			if err != nil {
				return oldest, err
			}
			if oldest.Guard == 0 || rec.Guard < oldest.Guard {
				oldest = rec
			}
			break
		}
	}
	return oldest, nil
}
