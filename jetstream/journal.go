package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Journal keeps journals in the cell's JOURNAL stream, one subject per session. The Guard of
// its heads is an entry's sequence in the stream.
type Journal struct {
	cell *Cell
}

var _ journal.Journal = (*Journal)(nil)

// Journal returns the cell's journal.
func (c *Cell) Journal() *Journal { return &Journal{cell: c} }

// Append writes e after head in one message, which the server stores only if head is the last
// one on the session's subject. It makes one request and does not retry: after ErrUnknown the
// entry may still arrive, so read before writing.
func (j *Journal) Append(ctx context.Context, head journal.Head, e events.Entry) (journal.Head, error) {
	if !content.IsToken(string(e.Session)) {
		return journal.Head{}, fmt.Errorf("append to %q: %w", e.Session, content.ErrBadID)
	}
	next, err := j.append(ctx, head, e)
	if err != nil {
		return journal.Head{}, fmt.Errorf("append %s after %d: %w", e.Session, head.Seq, err)
	}
	return next, nil
}

func (j *Journal) append(ctx context.Context, head journal.Head, e events.Entry) (next journal.Head, err error) {
	if ctx.Err() != nil {
		return next, context.Cause(ctx)
	}
	e, payload, next, err := journal.Seal(head, e)
	if err != nil {
		return next, err
	}
	msg := nats.Msg{Subject: j.cell.names.Journal(e.Session)}
	if msg.Header, msg.Data, err = j.cell.pack(ctx, payload); err != nil {
		return next, err
	}
	describe(&msg, head, e, next)
	if trace := journal.TraceParent(ctx); trace != "" {
		msg.Header[layout.HeaderTrace] = []string{trace}
	}
	next.Guard, err = j.cell.api.Publish(ctx, &msg)
	switch {
	case err == nil:
		return next, nil
	case api.IsConflict(err):
		return next, fmt.Errorf("%w: %w", journal.ErrConflict, err)
	case api.IsUnknown(err):
		return next, fmt.Errorf("%w: %w", journal.ErrUnknown, err)
	}
	return next, j.cell.api.Explain(ctx, j.cell.names.JournalStream(), err)
}

// describe adds the headers of an entry.
func describe(msg *nats.Msg, head journal.Head, e events.Entry, next journal.Head) {
	if msg.Header == nil {
		msg.Header = make(nats.Header, 8)
	}
	values := [...]string{
		strconv.FormatUint(head.Guard, 10), strconv.FormatUint(e.Seq, 10), next.Hash.String(), e.Prev.String(),
		kindList(e.Events), strconv.Itoa(e.Version),
	}
	for i, key := range [...]string{
		layout.HeaderGuard, layout.HeaderSeq, layout.HeaderHash, layout.HeaderPrev, layout.HeaderKinds, layout.HeaderVersion,
	} {
		msg.Header[key] = values[i : i+1 : i+1]
	}
}

// kindList returns the kinds in an entry, each once.
func kindList(evs []events.Event) string {
	kinds := make([]string, 0, len(evs))
	for _, ev := range evs {
		if k := string(events.KindOf(ev)); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return strings.Join(kinds, ",")
}

// Read yields the entries after a sequence number, including every acknowledged one. The store
// finds entries by its own positions, so it passes over the earlier ones; a caller that has a
// head reads from there with ReadFrom.
func (j *Journal) Read(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[journal.Record, error] {
	return j.read(ctx, s, chain{session: s}, after)
}

// ReadFrom is Read from head on, without looking at earlier entries. What follows must continue
// head's chain, else it ends with journal.ErrDamaged.
func (j *Journal) ReadFrom(ctx context.Context, s content.SessionID, head journal.Head) iter.Seq2[journal.Record, error] {
	return j.read(ctx, s, chain{session: s, head: head}, head.Seq)
}

func (j *Journal) read(ctx context.Context, s content.SessionID, ch chain, after uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		if !content.IsToken(string(s)) {
			return // nothing can have been written under that name
		}
		n := j.cell.names
		for m, err := range j.cell.api.All(ctx, n.JournalStream(), n.Journal(s), ch.head.Guard+1) {
			if err != nil {
				yield(journal.Record{}, fmt.Errorf("read %s after %d: %w", s, ch.head.Seq, err))
				return
			}
			if ch.head.Seq < after && ch.skip(m, after) {
				continue
			}
			rec, err := j.record(ctx, s, m)
			if err == nil {
				rec, err = j.extend(ctx, &ch, rec)
			}
			if skip := err == nil && rec.Seq <= after; !skip && !yield(rec, err) || err != nil || ch.deleted {
				return
			}
		}
	}
}

// extend adds the next entry to the chain. Where entries are missing because the session is just
// being deleted, the next one is the tombstone, whose position is after what was read.
func (j *Journal) extend(ctx context.Context, ch *chain, rec journal.Record) (journal.Record, error) {
	err := ch.extend(rec)
	if !errors.Is(err, journal.ErrDamaged) {
		return rec, err
	}
	last, lastErr := j.Last(ctx, ch.session)
	if _, deleted := events.DeletionOf(last.Entry); lastErr != nil || !deleted || ch.extend(last) != nil {
		return rec, err
	}
	return last, nil
}

// Last returns the last entry of a session, as the stream's leader knows it.
func (j *Journal) Last(ctx context.Context, s content.SessionID) (journal.Record, error) {
	if !content.IsToken(string(s)) {
		return journal.Record{}, fmt.Errorf("last entry of %q: %w", s, journal.ErrNotFound)
	}
	m, err := j.cell.api.Last(ctx, j.cell.names.JournalStream(), j.cell.names.Journal(s))
	if api.IsNotFound(err) {
		err = journal.ErrNotFound
	}
	if err != nil {
		return journal.Record{}, fmt.Errorf("last entry of %s: %w", s, err)
	}
	return j.record(ctx, s, m)
}

// sessionsAtOnce is how many sessions Sessions looks at concurrently.
const sessionsAtOnce = 64

// Sessions returns the sessions that have a journal, sorted, except those of which only the
// tombstone is left. It reads an index of the stream, and only journals with a single entry.
func (j *Journal) Sessions(ctx context.Context) ([]content.SessionID, error) {
	n := j.cell.names
	subjects, err := j.cell.api.Subjects(ctx, n.JournalStream(), n.AllJournals())
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var single []content.SessionID
	out := make([]content.SessionID, 0, len(subjects))
	for subject, entries := range subjects {
		if s := n.SessionOf(subject); entries > 1 {
			out = append(out, s)
		} else {
			single = append(single, s)
		}
	}
	for some := range slices.Chunk(single, sessionsAtOnce) {
		errs := api.Together(some, func(s content.SessionID) error {
			m, err := j.cell.api.Last(ctx, n.JournalStream(), n.Journal(s))
			if err == nil && m.Header.Get(layout.HeaderKinds) == string(events.KindSessionDeleted) {
				return api.ErrNoMessage
			}
			return err
		})
		for i, err := range errs {
			switch {
			case err == nil:
				out = append(out, some[i])
			case !api.IsNotFound(err):
				return nil, fmt.Errorf("list sessions: %w", err)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}
