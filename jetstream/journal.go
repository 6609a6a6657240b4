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
)

// Headers of entries. They repeat what the payload says, for who looks at the
// stream without decoding it; only the guard means something to the server.
const (
	headerGuard   = "Nats-Expected-Last-Subject-Sequence"
	headerSeq     = "Turnlog-Seq"
	headerHash    = "Turnlog-Hash"
	headerPrev    = "Turnlog-Prev"
	headerKinds   = "Turnlog-Kinds"
	headerVersion = "Turnlog-Version"
	headerTrace   = "traceparent"
)

// Journal keeps journals in the cell's JOURNAL stream, one subject per session.
// The Guard of its heads is an entry's sequence in the stream.
type Journal struct {
	cell *Cell
}

var _ journal.Journal = (*Journal)(nil)

// Journal returns the cell's journal.
func (c *Cell) Journal() *Journal { return &Journal{cell: c} }

// Append writes e behind head in one message, which the server stores only if
// head is the last one on the session's subject. One request and no second
// attempt: after ErrUnknown the entry may still arrive, so read before writing.
func (j *Journal) Append(ctx context.Context, head journal.Head, e events.Entry) (journal.Head, error) {
	if !content.IsToken(string(e.Session)) {
		return journal.Head{}, fmt.Errorf("append to %q: %w", e.Session, content.ErrBadID)
	}
	if ctx.Err() != nil {
		return journal.Head{}, fmt.Errorf("append %s after %d: %w", e.Session, head.Seq, context.Cause(ctx))
	}
	e, payload, next, err := journal.Seal(head, e)
	if err != nil {
		return journal.Head{}, fmt.Errorf("append %s after %d: %w", e.Session, head.Seq, err)
	}
	header, data, err := j.cell.pack(ctx, payload)
	if err != nil {
		return journal.Head{}, fmt.Errorf("append %s after %d: %w", e.Session, head.Seq, err)
	}
	msg := nats.Msg{Subject: j.cell.names.journal(e.Session), Header: header, Data: data}
	describe(&msg, head, e, next)
	if trace := journal.TraceParent(ctx); trace != "" {
		msg.Header[headerTrace] = []string{trace}
	}
	next.Guard, err = j.cell.publish(ctx, &msg)
	switch {
	case err == nil:
		return next, nil
	case isConflict(err):
		err = fmt.Errorf("%w: %w", journal.ErrConflict, err)
	case isUnknown(err):
		err = fmt.Errorf("%w: %w", journal.ErrUnknown, err)
	default:
		err = j.cell.explain(ctx, j.cell.names.journalStream(), err)
	}
	return journal.Head{}, fmt.Errorf("append %s after %d: %w", e.Session, head.Seq, err)
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
	for i, key := range [...]string{headerGuard, headerSeq, headerHash, headerPrev, headerKinds, headerVersion} {
		msg.Header[key] = values[i : i+1 : i+1]
	}
}

// kindList names the kinds in an entry, each once.
func kindList(evs []events.Event) string {
	kinds := make([]string, 0, len(evs))
	for _, ev := range evs {
		if k := string(events.KindOf(ev)); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return strings.Join(kinds, ",")
}

// Read yields the entries behind a sequence number, and brings whatever was acknowledged
// before it began. The store finds entries by its own positions, so the ones before are
// passed over on the way; who knows a head reads from there with ReadFrom.
func (j *Journal) Read(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[journal.Record, error] {
	return j.read(ctx, s, chain{session: s}, after)
}

// ReadFrom is Read from behind head, without looking at earlier entries. What follows
// must continue head's chain, else it ends with journal.ErrDamaged.
func (j *Journal) ReadFrom(ctx context.Context, s content.SessionID, head journal.Head) iter.Seq2[journal.Record, error] {
	return j.read(ctx, s, chain{session: s, head: head}, head.Seq)
}

func (j *Journal) read(ctx context.Context, s content.SessionID, ch chain, after uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		if !content.IsToken(string(s)) {
			return // nothing can have been written under that name
		}
		n := j.cell.names
		for m, err := range j.cell.readAll(ctx, n.journalStream(), n.journal(s), ch.head.Guard+1) {
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

// extend takes the next entry into the chain. Where entries are missing because
// somebody is just deleting the session, it is the tombstone, whose position in the
// stream is then behind what was read.
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
	m, err := j.cell.leaderLast(ctx, j.cell.names.journalStream(), j.cell.names.journal(s))
	switch {
	case isNotFound(err):
		return journal.Record{}, fmt.Errorf("last entry of %s: %w", s, journal.ErrNotFound)
	case err != nil:
		return journal.Record{}, fmt.Errorf("last entry of %s: %w", s, err)
	}
	return j.record(ctx, s, m)
}

// record makes an entry of a message. On an error it returns what there is: whose
// it is and when it was stored are known of any message.
func (j *Journal) record(ctx context.Context, s content.SessionID, m stored) (journal.Record, error) {
	rec := journal.Record{Head: journal.Head{Guard: m.Seq}, Stored: m.Time}
	outside(&rec, s, m)
	if m.Aimed {
		return rec, damaged(s, m, errAimed.Error())
	}
	payload, err := j.cell.unpack(ctx, m.Header, m.Data)
	if errors.Is(err, ErrBlobMissing) {
		err = fmt.Errorf("%w: %w", journal.ErrDamaged, err)
	}
	if err != nil {
		return rec, fmt.Errorf("journal of %s, %s: %w", s, place(m), err)
	}
	rec.Payload, rec.Hash = payload, events.HashOf(payload)
	if said := m.Header.Get(headerHash); said != rec.Hash.String() {
		return rec, damaged(s, m, fmt.Sprintf("its bytes have the hash %s, its header says %q", rec.Hash, said))
	}
	e, err := events.Decode(payload)
	switch {
	case errors.Is(err, events.ErrUnknownKind) && e.Seq == 0: // its head is of another layout
		rec.Entry.Version, rec.Err = e.Version, err
		return rec, nil
	case errors.Is(err, events.ErrUnknownKind):
		rec.Err = err
	case err != nil:
		return rec, damaged(s, m, err.Error())
	}
	rec.Entry, rec.Seq = e, e.Seq
	if e.Session != s {
		return rec, damaged(s, m, fmt.Sprintf("it is an entry of session %q", e.Session))
	}
	return rec, nil
}

// outside fills in what a message tells of its entry without its payload.
func outside(rec *journal.Record, s content.SessionID, m stored) {
	rec.Seq = headerUint(m.Header, headerSeq)
	rec.Entry = events.Entry{Session: s, Seq: rec.Seq, At: content.TimeOf(m.Time)}
	_ = rec.Entry.Prev.UnmarshalText([]byte(m.Header.Get(headerPrev))) // the chain finds out
}

// place says where in the journal a message stands.
func place(m stored) string {
	if seq := m.Header.Get(headerSeq); seq != "" {
		return fmt.Sprintf("entry %s at %d of the stream", seq, m.Seq)
	}
	return fmt.Sprintf("message %d of the stream", m.Seq)
}

func damaged(s content.SessionID, m stored, why string) error {
	return fmt.Errorf("%w: %s, %s: %s", journal.ErrDamaged, s, place(m), why)
}

// chain is how far a journal was read. It checks that what follows does follow.
type chain struct {
	session content.SessionID
	head    journal.Head
	deleted bool // it ends with the tombstone
}

// extend takes the next entry.
func (c *chain) extend(rec journal.Record) error {
	e := rec.Entry
	_, deletes := events.DeletionOf(e)
	switch {
	case c.deleted:
		return fmt.Errorf("%w: %s: entry %d follows the tombstone", journal.ErrDamaged, c.session, e.Seq)
	case deletes && e.Seq > c.head.Seq+1: // what is missing was deleted
	case e.Seq != c.head.Seq+1:
		return fmt.Errorf("%w: %s: entry %d follows %d", journal.ErrDamaged, c.session, e.Seq, c.head.Seq)
	case e.Prev != c.head.Hash:
		return fmt.Errorf("%w: %s: entry %d names %s before it, but that entry's hash is %s",
			journal.ErrDamaged, c.session, e.Seq, e.Prev, c.head.Hash)
	}
	c.head, c.deleted = rec.Head, deletes
	return nil
}

// skip passes over an entry up to a sequence number by its headers alone. It
// reports false for one whose headers do not continue the chain, which is then
// read like any other.
func (c *chain) skip(m stored, upTo uint64) bool {
	var hash events.Hash
	seq := headerUint(m.Header, headerSeq)
	if seq != c.head.Seq+1 || seq > upTo || m.Header.Get(headerPrev) != c.head.Hash.String() ||
		hash.UnmarshalText([]byte(m.Header.Get(headerHash))) != nil {
		return false
	}
	c.head = journal.Head{Seq: seq, Hash: hash, Guard: m.Seq}
	return true
}
