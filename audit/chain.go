package audit

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// links is the state of the chain of entries.
type links struct {
	intact  bool // the latest record follows the previous one, unchanged, and was decoded completely
	at      content.Time
	epoch   uint64
	cursors map[events.Lane]events.Cursor
	gaps    []Violation // about missing entries
}

// chain checks that the next record follows the one before it, and returns its entry.
func (c *Checker) chain(r journal.Record) (e events.Entry, intact bool) {
	c.links.intact = true
	e, readable := c.read(r)
	d, deletes := events.DeletionOf(e)
	switch {
	case c.report.Deleted != nil:
		c.broken(r.Seq, singleWriter, "it follows the tombstone: the session was deleted")
	case deletes && readable:
		c.report.Deleted = &d
	}
	seq := r.Seq
	if readable {
		c.link(r, e)
		seq = e.Seq
	}
	c.report.Session = cmp.Or(c.report.Session, e.Session)
	c.report.Seq, c.report.Hash = seq, events.HashOf(r.Payload)
	return e, c.links.intact
}

// read decodes the entry from its exact bytes and ignores the record's own copy. It reports whether
// the entry's position in the chain is known.
func (c *Checker) read(r journal.Record) (events.Entry, bool) {
	if h := events.HashOf(r.Payload); h != r.Hash {
		c.broken(r.Seq, singleWriter, "its recorded hash is %s, but its bytes have %s: the bytes were changed", r.Hash, h)
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
		c.fault(r.Seq, wholeEntries, "it has no events")
	}
	for _, k := range e.Kinds() {
		if !events.Journaled(k) {
			c.broken(r.Seq, wholeEntries, "it has a %s, which is never stored", k)
		}
	}
	return e, true
}

// link compares the entry with the head of the chain.
func (c *Checker) link(r journal.Record, e events.Entry) {
	if e.Seq != r.Seq {
		c.broken(r.Seq, singleWriter, "it is stored as entry %d, but its content says %d", r.Seq, e.Seq)
	}
	switch want := c.report.Seq + 1; {
	case e.Seq > want && c.report.Deleted != nil: // the missing entries were deleted
		c.links.epoch = e.Epoch
	case e.Seq > want:
		c.broken(e.Seq, singleWriter, "entry %d is expected here: %s", want, missing(want, e.Seq-1))
		c.links.gaps = append(c.links.gaps, c.report.Violations[len(c.report.Violations)-1])
		c.links.epoch = e.Epoch // claimed in one of the missing entries
	case e.Seq < want:
		c.broken(e.Seq, singleWriter, "entry %d is expected here: this one is a repetition or out of order", want)
	case e.Prev != c.report.Hash:
		c.broken(e.Seq, singleWriter, "it follows an entry with hash %s, but the previous entry has %s: one of the two was changed or replaced", e.Prev, c.report.Hash)
	}
	if s := cmp.Or(c.report.Session, e.Session); e.Session != s {
		c.broken(e.Seq, singleWriter, "it belongs to session %s, not to %s", e.Session, s)
	}
	c.claims(e)
	if at := c.links.at; e.At < at {
		c.report.Warnings = append(c.report.Warnings,
			Violation{timeGoesOn, e.Seq, fmt.Sprintf("its time %s is earlier than that of the previous entry, %s", e.At, at)})
	}
	c.links.at = e.At
	c.move(e)
}

func missing(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("entry %d is missing", from)
	}
	return fmt.Sprintf("entries %d to %d are missing", from, to)
}

// claims checks that every writer has claimed the session. An epoch begins with a DriverClaimed as
// the first event of its entry.
func (c *Checker) claims(e events.Entry) {
	for i, ev := range e.Events {
		claim, ok := ev.(events.DriverClaimed)
		if !ok {
			continue
		}
		if i > 0 {
			c.fault(e.Seq, epochRises, "a claim is not the first event of its entry")
		}
		if claim.Epoch <= c.links.epoch {
			c.fault(e.Seq, epochRises, "a host claims epoch %d after epoch %d", claim.Epoch, c.links.epoch)
		}
		c.links.epoch = max(c.links.epoch, claim.Epoch)
	}
	switch {
	case c.links.epoch == 0:
		c.fault(e.Seq, epochRises, "it was written before any host claimed the session")
	case e.Epoch != c.links.epoch:
		c.fault(e.Seq, epochRises, "it was written in epoch %d, but epoch %d holds the session", e.Epoch, c.links.epoch)
	}
}

func (c *Checker) move(e events.Entry) {
	if c.links.cursors == nil {
		c.links.cursors = map[events.Lane]events.Cursor{}
	}
	for _, cur := range e.Cursors {
		// In a stream that lost messages, sequences begin again, but time goes on.
		if last := c.links.cursors[cur.Lane]; cur.Seq < last.Seq && cur.At <= last.At {
			c.fault(e.Seq, cursorsRise, "the cursor of lane %q falls from %d to %d", cur.Lane, last.Seq, cur.Seq)
		}
		c.links.cursors[cur.Lane] = cur
	}
}

// broken records a fault after which later entries cannot be interpreted.
func (c *Checker) broken(seq uint64, invariant, format string, args ...any) {
	c.links.intact = false
	c.fault(seq, invariant, format, args...)
}
