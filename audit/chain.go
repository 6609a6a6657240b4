package audit

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// chain checks that the records of a journal form one chain. The zero chain expects the
// first entry.
type chain struct {
	session content.SessionID
	head    journal.Head
	at      content.Time
	epoch   uint64
	cursors map[events.Lane]uint64
	deleted *events.Deletion // the tombstone, the last entry

	// About the latest record.
	linked bool // it follows the previous one, unchanged, and was decoded completely
	found  []Violation
	gap    []Violation // those of found about missing entries before it
	warned []Violation
}

// add checks the next record and returns its entry. After a record that does not fit it
// continues from there, so that each fault is reported once.
func (c *chain) add(r journal.Record) events.Entry {
	c.linked, c.found, c.gap, c.warned = true, nil, nil, nil
	e, readable := c.read(r)
	if c.deleted != nil {
		c.broken(r.Seq, singleWriter, "it follows the tombstone: the session was deleted before")
	}
	if d, ok := events.DeletionOf(e); ok && readable && c.deleted == nil {
		c.deleted = &d
	}
	seq := r.Seq
	if readable {
		c.link(r, e)
		seq = e.Seq
	}
	c.head = journal.Head{Seq: seq, Hash: events.HashOf(r.Payload), Guard: r.Guard}
	return e
}

// read decodes the entry from its exact bytes, not from what the record says about them. It
// reports whether the entry's head is known.
func (c *chain) read(r journal.Record) (events.Entry, bool) {
	if h := events.HashOf(r.Payload); h != r.Hash {
		c.broken(r.Seq, singleWriter, "its hash is %s, that of its bytes is %s: the bytes were changed", r.Hash, h)
	}
	e, err := events.Decode(r.Payload)
	format, isFormat := errors.AsType[*events.FormatError](err)
	switch {
	case isFormat:
		c.broken(r.Seq, wholeEntries, "it cannot be judged: %v", format)
		return e, e.Seq > 0
	case errors.Is(err, events.ErrUnknownKind):
		c.broken(r.Seq, wholeEntries, "%v: a newer release wrote it", err)
		return e, true
	case err != nil:
		c.broken(r.Seq, wholeEntries, "it cannot be read: %v", err)
		return e, false
	}
	if len(e.Events) == 0 {
		c.fault(r.Seq, wholeEntries, "it holds no event")
	}
	for _, k := range e.Kinds() {
		if !events.Journaled(k) {
			c.broken(r.Seq, wholeEntries, "it holds a %s, which is never stored", k)
		}
	}
	return e, true
}

// link compares the entry with the head of the chain.
func (c *chain) link(r journal.Record, e events.Entry) {
	if e.Seq != r.Seq {
		c.broken(r.Seq, singleWriter, "it is stored as entry %d but says that it is entry %d", r.Seq, e.Seq)
	}
	switch want := c.head.Seq + 1; {
	case e.Seq > want && c.deleted != nil: // the missing entries were deleted
		c.epoch = e.Epoch
	case e.Seq > want:
		c.broken(e.Seq, singleWriter, "entry %d is expected here: %s", want, missing(want, e.Seq-1))
		c.gap = c.found[len(c.found)-1:]
		c.epoch = e.Epoch // claimed in one of the missing entries
	case e.Seq < want:
		c.broken(e.Seq, singleWriter, "entry %d is expected here: this one is repeated or out of order", want)
	case e.Prev != c.head.Hash:
		c.broken(e.Seq, singleWriter, "it names %s as the entry before it, which is %s: one of the two was changed or replaced", e.Prev, c.head.Hash)
	}
	if c.session == "" {
		c.session = e.Session
	}
	if e.Session != c.session {
		c.broken(e.Seq, singleWriter, "it belongs to session %s, not to %s", e.Session, c.session)
	}
	c.claims(e)
	if e.At < c.at {
		c.warned = append(c.warned, Violation{timeGoesOn, e.Seq, fmt.Sprintf("its time %s is before that of the entry before it, %s", e.At, c.at)})
	}
	c.at = e.At
	c.move(e)
}

func missing(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("entry %d is missing", from)
	}
	return fmt.Sprintf("entries %d to %d are missing", from, to)
}

// claims checks that every writer has claimed the session: an epoch begins with a
// DriverClaimed as the first event of its entry.
func (c *chain) claims(e events.Entry) {
	for i, ev := range e.Events {
		claim, ok := ev.(events.DriverClaimed)
		if !ok {
			continue
		}
		if i > 0 {
			c.fault(e.Seq, epochRises, "a claim is not the first event of its entry")
		}
		if claim.Epoch <= c.epoch {
			c.fault(e.Seq, epochRises, "a host claims epoch %d after epoch %d", claim.Epoch, c.epoch)
		}
		c.epoch = max(c.epoch, claim.Epoch)
	}
	switch {
	case c.epoch == 0:
		c.fault(e.Seq, epochRises, "it was written before any host claimed the session")
	case e.Epoch != c.epoch:
		c.fault(e.Seq, epochRises, "it was written in epoch %d, but epoch %d holds the session", e.Epoch, c.epoch)
	}
}

func (c *chain) move(e events.Entry) {
	for _, cur := range e.Cursors {
		if cur.Seq < c.cursors[cur.Lane] {
			c.fault(e.Seq, cursorsRise, "the cursor of lane %q falls from %d to %d", cur.Lane, c.cursors[cur.Lane], cur.Seq)
		}
		if c.cursors == nil {
			c.cursors = map[events.Lane]uint64{}
		}
		c.cursors[cur.Lane] = cur.Seq
	}
}

// broken records a fault after which later entries cannot be interpreted.
func (c *chain) broken(seq uint64, invariant, format string, args ...any) {
	c.linked = false
	c.fault(seq, invariant, format, args...)
}

func (c *chain) fault(seq uint64, invariant, format string, args ...any) {
	c.found = append(c.found, Violation{Invariant: invariant, Seq: seq, Message: fmt.Sprintf(format, args...)})
}
