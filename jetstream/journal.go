package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/tracing"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Journal keeps journals in the cell's JOURNAL stream, one subject per session. The Guard of
// its heads is an entry's sequence in the stream.
type Journal struct {
	cell *Cell
	all  func(ctx context.Context, stream, subject string, seq uint64) iter.Seq2[api.Message, error] // reads entries
}

var _ journal.Journal = (*Journal)(nil)

// Journal returns the cell's journal.
func (c *Cell) Journal() *Journal { return &Journal{cell: c, all: c.api.All} }

// ForAppend returns the journal for a caller that reads and then appends after the last entry that it read.
// Its Read and ReadFrom save a request, but may miss the newest entries. Then the append conflicts, and a
// further ReadFrom yields more.
func (j *Journal) ForAppend() *Journal { return &Journal{cell: j.cell, all: j.cell.api.Most} }

// Append writes e after head in one message. The server stores it only if head is the last one on the
// session's subject. It does not retry. After ErrUnknown the entry may still arrive, so read before
// writing.
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
	if err := j.cell.seal(ctx, &e); err != nil {
		return next, err
	}
	e, payload, next, err := journal.Link(head, e)
	if err != nil {
		return next, err
	}
	msg := nats.NewMsg(j.cell.names.Journal(e.Session))
	if err := j.cell.put(ctx, msg, payload); err != nil {
		return next, err
	}
	describe(msg, head, e, next, tracing.Parent(ctx))
	j.cell.keys.Entry(msg.Header, e.Session, next)
	next.Guard, err = j.cell.api.Publish(ctx, msg)
	switch {
	case err == nil && e.Sealing == nil:
		j.cell.seals.Unsealed(e.Session)
		return next, nil
	case err == nil:
		return next, nil
	case api.IsConflict(err):
		return next, fmt.Errorf("%w: %w", journal.ErrConflict, err)
	case api.IsUnknown(err):
		return next, fmt.Errorf("%w: %w", journal.ErrUnknown, err)
	}
	return next, j.cell.api.Explain(ctx, j.cell.names.JournalStream(), err)
}

// describe adds the headers of an entry to its message. They hold what must be known of a payload that
// cannot be read, and what readers need that do not decode payloads.
func describe(msg *nats.Msg, head journal.Head, e events.Entry, next journal.Head, trace string) {
	prev, kind := "", ""
	if msg.Header.Get(layout.HeaderBlob) != "" {
		prev = e.Prev.String()
	}
	if _, deletes := events.DeletionOf(e); deletes {
		kind = string(events.KindSessionDeleted)
	}
	values := [...]string{ // an array, to save allocations
		strconv.FormatUint(head.Guard, 10), strconv.FormatUint(e.Seq, 10), next.Hash.String(), prev, kind, trace,
	}
	for i, name := range [...]string{
		layout.HeaderGuard, layout.HeaderSeq, layout.HeaderHash, layout.HeaderPrev, layout.HeaderKinds, layout.HeaderTrace,
	} {
		if values[i] != "" {
			msg.Header[name] = values[i : i+1 : i+1]
		}
	}
}

// Read yields the entries after a sequence number, including every acknowledged one. It scans earlier
// entries; ReadFrom does not.
func (j *Journal) Read(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[journal.Record, error] {
	return j.read(ctx, s, chain{session: s}, after)
}

// ReadFrom yields the entries after head without reading earlier ones. It ends with journal.ErrDamaged
// if they do not continue head's chain.
func (j *Journal) ReadFrom(ctx context.Context, s content.SessionID, head journal.Head) iter.Seq2[journal.Record, error] {
	return j.read(ctx, s, chain{session: s, head: head}, head.Seq)
}

func (j *Journal) read(ctx context.Context, s content.SessionID, ch chain, after uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		if !content.IsToken(string(s)) {
			return // no such sessions exist
		}
		n := j.cell.names
		for m, err := range j.all(ctx, n.JournalStream(), n.Journal(s), ch.head.Guard+1) {
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
			skip := err == nil && rec.Seq <= after
			if !skip && !yield(rec, err) || err != nil || rec.Guard > m.Seq { // done: it skipped to the tombstone
				return
			}
		}
	}
}

// extend adds the next entry to the chain. If entries are missing because the session is being deleted, it
// returns the tombstone instead.
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

// Last returns the last entry of a session, according to the stream's leader.
func (j *Journal) Last(ctx context.Context, s content.SessionID) (journal.Record, error) {
	if !content.IsToken(string(s)) {
		return journal.Record{}, fmt.Errorf("last entry of %q: %w", s, journal.ErrNotFound)
	}
	m, err := j.cell.api.Last(ctx, j.cell.names.JournalStream(), j.cell.names.Journal(s))
	return j.found(ctx, s, "last entry", m, err)
}

// From returns the first entry of a session at or after a position in the stream, or ErrNotFound.
func (j *Journal) From(ctx context.Context, s content.SessionID, position uint64) (journal.Record, error) {
	m, err := j.cell.api.Next(ctx, j.cell.names.JournalStream(), j.cell.names.Journal(s), position)
	return j.found(ctx, s, "next entry", m, err)
}

// found is record for a message that may be missing.
func (j *Journal) found(ctx context.Context, s content.SessionID, what string, m api.Message, err error) (journal.Record, error) {
	if api.IsNotFound(err) {
		err = journal.ErrNotFound
	}
	if err != nil {
		return journal.Record{}, fmt.Errorf("%s of %s: %w", what, s, err)
	}
	return j.record(ctx, s, m)
}

const sessionsAtOnce = 64 // how many journals Sessions reads at once

// Lengths returns how many entries each session has, including the tombstone. It reads an index of the
// stream.
func (j *Journal) Lengths(ctx context.Context) (map[content.SessionID]uint64, error) {
	n := j.cell.names
	subjects, err := j.cell.api.Subjects(ctx, n.JournalStream(), n.Journal(AllSessions))
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	out := make(map[content.SessionID]uint64, len(subjects))
	for subject, entries := range subjects {
		out[n.SessionOf(subject)] = entries
	}
	delete(out, "")
	return out, nil
}

// Sessions returns the sessions with a journal, sorted, except those with only a tombstone. It reads only
// the journals that have a single entry.
func (j *Journal) Sessions(ctx context.Context) ([]content.SessionID, error) {
	all, err := j.Lengths(ctx)
	if err != nil {
		return nil, err
	}
	out := slices.Sorted(maps.Keys(all))
	single := slices.DeleteFunc(slices.Clone(out), func(s content.SessionID) bool { return all[s] > 1 })
	for some := range slices.Chunk(single, sessionsAtOnce) {
		errs := api.Together(some, func(s content.SessionID) error {
			m, err := j.cell.api.Last(ctx, j.cell.names.JournalStream(), j.cell.names.Journal(s))
			if err == nil && m.Header.Get(layout.HeaderKinds) == string(events.KindSessionDeleted) {
				return api.ErrNoMessage
			}
			return err
		})
		for i, err := range errs {
			if api.IsNotFound(err) {
				delete(all, some[i])
			} else if err != nil {
				return nil, fmt.Errorf("list sessions: %w", err)
			}
		}
	}
	return slices.DeleteFunc(out, func(s content.SessionID) bool { return all[s] == 0 }), nil
}

// record returns the entry in a message. With an error, it still returns the session and the time of
// storage.
func (j *Journal) record(ctx context.Context, s content.SessionID, m api.Message) (journal.Record, error) {
	rec := journal.Record{Head: journal.Head{Guard: m.Seq}, Moved: m.Header.Get(layout.HeaderStored) != ""}
	fromHeaders(&rec, s, m)
	if m.Header.Get(layout.HeaderKinds) == layout.KindArriving {
		return rec, damaged(journal.ErrArriving, s, m, "the session is being moved here")
	}
	if m.Spoofed {
		return rec, damaged(journal.ErrDamaged, s, m, api.ErrSpoofed.Error())
	}
	payload, err := j.cell.get(ctx, m.Header, m.Data, 0)
	if errors.Is(err, ErrBlobMissing) {
		err = fmt.Errorf("%w: %w", journal.ErrMissing, err)
	}
	if err != nil {
		return rec, fmt.Errorf("journal of %s, %s: %w", s, position(m), err)
	}
	rec.Payload, rec.Hash = payload, events.HashOf(payload)
	if header := m.Header.Get(layout.HeaderHash); header != rec.Hash.String() {
		return rec, damaged(journal.ErrDamaged, s, m, fmt.Sprintf("its bytes have the hash %s, its header has %q", rec.Hash, header))
	}
	e, err := j.cell.open(ctx, s, payload)
	switch {
	case errors.Is(err, events.ErrUnknownKind) && e.Seq == 0: // such an entry has another head
		rec.Entry.Version, rec.Err = e.Version, err
		return rec, nil
	case errors.Is(err, events.ErrUnknownKind):
		rec.Err = err
	case ctx.Err() != nil && err != nil:
		return rec, err
	case err != nil:
		return rec, damaged(journal.ErrUnreadable, s, m, err.Error())
	}
	rec.Entry, rec.Seq = e, e.Seq
	if e.Session != s {
		return rec, damaged(journal.ErrForeign, s, m, fmt.Sprintf("it is an entry of session %q", e.Session))
	}
	if name := layout.Misdescribed(m.Header, e); name != "" && rec.Err == nil {
		return rec, damaged(journal.ErrDamaged, s, m, fmt.Sprintf("its header %s is %q, which its bytes do not say", name, m.Header.Get(name)))
	}
	return rec, nil
}

// fromHeaders sets the fields of rec that are in the headers.
func fromHeaders(rec *journal.Record, s content.SessionID, m api.Message) {
	if rec.Seq = api.HeaderUint(m.Header, layout.HeaderSeq); !rec.Moved {
		rec.Stored = m.Time
	}
	rec.Signature = layout.SignatureOf(m.Header)
	rec.TraceParent = m.Header.Get(layout.HeaderTrace)
	rec.Entry = events.Entry{Session: s, Seq: rec.Seq, At: content.TimeOf(m.Time)}
	_ = rec.Entry.Prev.UnmarshalText([]byte(m.Header.Get(layout.HeaderPrev))) // the chain detects errors
}

// position describes the position of a message in the journal.
func position(m api.Message) string {
	if seq := m.Header.Get(layout.HeaderSeq); seq != "" {
		return fmt.Sprintf("entry %s at %d of the stream", seq, m.Seq)
	}
	return fmt.Sprintf("message %d of the stream", m.Seq)
}

func damaged(how error, s content.SessionID, m api.Message, why string) error {
	return fmt.Errorf("%w: %s, %s: %s", how, s, position(m), why)
}

// chain verifies that each entry follows the one before.
type chain struct {
	session content.SessionID
	head    journal.Head
	deleted bool // ends with the tombstone
}

// extend adds the next entry.
func (c *chain) extend(rec journal.Record) error {
	if c.deleted {
		return fmt.Errorf("%w: %s: entry %d follows the tombstone", journal.ErrForged, c.session, rec.Seq)
	}
	if err := journal.Follows(c.head, rec.Entry); err != nil {
		return err
	}
	_, c.deleted = events.DeletionOf(rec.Entry)
	c.head = rec.Head
	return nil
}

// skip passes over an entry up to a sequence number without its events. It returns false if the entry does
// not continue the chain; it must then be read.
func (c *chain) skip(m api.Message, upTo uint64) bool {
	var hash, prev events.Hash
	seq := api.HeaderUint(m.Header, layout.HeaderSeq)
	err := hash.UnmarshalText([]byte(m.Header.Get(layout.HeaderHash)))
	if text := m.Header.Get(layout.HeaderPrev); text != "" {
		err = errors.Join(err, prev.UnmarshalText([]byte(text)))
	} else {
		e, bad := events.DecodeHead(m.Data)
		prev, err = e.Prev, errors.Join(err, bad)
	}
	if err != nil || seq != c.head.Seq+1 || seq > upTo || prev != c.head.Hash {
		return false
	}
	c.head = journal.Head{Seq: seq, Hash: hash, Guard: m.Seq}
	return true
}
