package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// record returns the entry in a message. With an error it returns what is known of any message:
// its session and when it was stored.
func (j *Journal) record(ctx context.Context, s content.SessionID, m api.Message) (journal.Record, error) {
	rec := journal.Record{Head: journal.Head{Guard: m.Seq}, Stored: m.Time}
	fromHeaders(&rec, s, m)
	if m.Spoofed {
		return rec, damaged(s, m, api.ErrSpoofed.Error())
	}
	payload, err := j.cell.unpack(ctx, m.Header, m.Data, 0)
	if errors.Is(err, ErrBlobMissing) {
		err = fmt.Errorf("%w: %w", journal.ErrDamaged, err)
	}
	if err != nil {
		return rec, fmt.Errorf("journal of %s, %s: %w", s, position(m), err)
	}
	rec.Payload, rec.Hash = payload, events.HashOf(payload)
	if header := m.Header.Get(layout.HeaderHash); header != rec.Hash.String() {
		return rec, damaged(s, m, fmt.Sprintf("its bytes have the hash %s, its header says %q", rec.Hash, header))
	}
	e, err := events.Decode(payload)
	switch {
	case errors.Is(err, events.ErrUnknownKind) && e.Seq == 0: // its head has another layout
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

// fromHeaders fills in what a message says about its entry outside of the payload.
func fromHeaders(rec *journal.Record, s content.SessionID, m api.Message) {
	rec.Seq = api.HeaderUint(m.Header, layout.HeaderSeq)
	rec.Entry = events.Entry{Session: s, Seq: rec.Seq, At: content.TimeOf(m.Time)}
	_ = rec.Entry.Prev.UnmarshalText([]byte(m.Header.Get(layout.HeaderPrev))) // the chain finds out
}

// position describes where in the journal a message is.
func position(m api.Message) string {
	if seq := m.Header.Get(layout.HeaderSeq); seq != "" {
		return fmt.Sprintf("entry %s at %d of the stream", seq, m.Seq)
	}
	return fmt.Sprintf("message %d of the stream", m.Seq)
}

func damaged(s content.SessionID, m api.Message, why string) error {
	return fmt.Errorf("%w: %s, %s: %s", journal.ErrDamaged, s, position(m), why)
}

// chain is how far a journal was read. It verifies that each entry follows the one before.
type chain struct {
	session content.SessionID
	head    journal.Head
	deleted bool // it ends with the tombstone
}

// extend adds the next entry.
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

// skip passes over an entry up to a sequence number by its headers alone. It returns false for
// an entry whose headers do not continue the chain, which is then read like any other.
func (c *chain) skip(m api.Message, upTo uint64) bool {
	var hash events.Hash
	seq := api.HeaderUint(m.Header, layout.HeaderSeq)
	if seq != c.head.Seq+1 || seq > upTo || m.Header.Get(layout.HeaderPrev) != c.head.Hash.String() ||
		hash.UnmarshalText([]byte(m.Header.Get(layout.HeaderHash))) != nil {
		return false
	}
	c.head = journal.Head{Seq: seq, Hash: hash, Guard: m.Seq}
	return true
}
