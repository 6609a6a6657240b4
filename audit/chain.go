package audit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/events/seal"
)

// links is the state of the chain of entries.
type links struct {
	hash    events.Hash
	intact  bool // the latest record follows the previous one, unchanged, and was decoded completely
	at      content.Time
	apart   bool          // the driver's time and the store's differ too much
	kinds   []events.Kind // of the latest record, up to the first that this release does not know
	later   bool          // the latest record has a later format: its events are unknown
	epoch   uint64
	parked  bool              // the host of the epoch parked the session
	key     string            // key of the host of the epoch
	signed  map[string]uint64 // by key of a host: the last entry of its last epoch before this one; nil: partly unknown
	cursors map[events.Lane]events.Cursor
	removed *verdict.Fault // about missing entries at the beginning, unless a tombstone says why

	moved bool // the latest record was moved here
	here  bool // a record was written here

	sealed *events.Sealing // sealing of the first entry; nil: it is not sealed
	closed uint64          // the first entry whose events are sealed with an unavailable key; 0: none
}

// chain checks that the next record follows the previous one, and returns its entry.
func (c *Checker) chain(r journal.Record) (e events.Entry, intact bool) {
	c.links.intact = true
	e, readable := c.read(r)
	d, deletes := events.DeletionOf(e)
	switch {
	case c.verdict.Tombstone != nil:
		c.broken(verdict.Forged, r.Seq, singleWriter, "it follows the tombstone: the session was deleted")
	case deletes && readable:
		c.setTombstone(d)
	}
	seq := r.Seq
	if readable {
		c.link(r, e)
		c.sealing(e, deletes)
		seq = e.Seq
	}
	c.verdict.Session = cmp.Or(c.verdict.Session, e.Session)
	c.verdict.End(seq, c.links.hash, e.At)
	return e, c.links.intact
}

// setTombstone records the tombstone.
func (c *Checker) setTombstone(d events.Deletion) {
	c.verdict.Tombstone, c.verdict.State = &d, verdict.Deleted
	if d.Expired {
		c.verdict.State = verdict.Expired
	}
	if d.MovedTo != nil {
		c.verdict.State = verdict.Moved
	}
	if d.Erased && c.links.removed == nil && c.verdict.Entries > 0 { // its entries still exist
		c.verdict.State = verdict.Erased
	}
}

// moved checks that the moved entries are the beginning of the journal, and that the claim of the move follows.
func (c *Checker) moved(r journal.Record, e events.Entry) {
	from := events.MovedFromOf(e)
	switch {
	case r.Moved && c.links.here:
		c.fault(verdict.Forged, r.Seq, singleWriter, "it is marked as moved here, but the entry before it was written here")
	case from != nil && len(from.Entry) > 0 && !from.Proves(e):
		c.fault(verdict.Forged, r.Seq, singleWriter, "its bytes differ from those of the tombstone of the move")
	case from != nil && c.links.here && !r.Moved && !r.Stored.IsZero():
		c.fault(verdict.Forged, r.Seq, singleWriter, "it says that the session was moved here, but the entry before it was written here")
	case !r.Moved && c.links.moved && from == nil:
		c.fault(verdict.Forged, r.Seq, singleWriter, "the entries before it are marked as moved here, but it does not say from where")
	}
	c.links.moved, c.links.here = r.Moved, c.links.here || !r.Moved
	if from != nil {
		c.verdict.Moves = append(c.verdict.Moves, verdict.Move{Seq: r.Seq, At: e.At, Last: e.Prev, Proved: from.Proves(e), MovedFrom: *from})
	}
}

// sealing checks that a session is sealed from its beginning, with one key: only then does destroying the key erase its
// content. The tombstone is not sealed.
func (c *Checker) sealing(e events.Entry, tombstone bool) {
	first := c.links.sealed
	switch {
	case c.verdict.Entries == 0:
		c.links.sealed = e.Sealing
	case tombstone && e.Sealing == nil:
		if c.verdict.State == verdict.Erased && first == nil {
			c.fault(verdict.Forged, e.Seq, wholeEntries, "it says that the session was erased, but the session is not sealed")
		}
	case first == nil && e.Sealing != nil:
		c.fault(verdict.Forged, e.Seq, wholeEntries, "it is sealed, but the session is not")
	case first != nil && e.Sealing == nil:
		c.fault(verdict.Forged, e.Seq, wholeEntries, "the session is sealed, but this entry is not")
	case first != nil && first.ID != e.Sealing.ID:
		c.fault(verdict.Forged, e.Seq, wholeEntries, "it is sealed with key %s, but the session with %s", e.Sealing.ID.Short(), first.ID.Short())
	}
}

// closedContent adds to the verdict that the content could not be judged, if the key of a sealed session is missing.
func (c *Checker) closedContent(v *verdict.Verdict) {
	if c.links.closed == 0 || v.State != "" {
		return
	}
	v.Add(verdict.Fault{
		Kind: verdict.Sealed, Seq: c.links.closed, Invariant: wholeEntries,
		What: "the content from here on is sealed, and its key is missing: only the chain was checked, and what else needs no content",
	})
}

// read decodes the entry from its exact bytes and ignores the record's own copy. It reports whether
// the entry's position in the chain is known.
func (c *Checker) read(r journal.Record) (events.Entry, bool) {
	e, err := r.Entry, r.Err
	c.links.hash = r.Hash
	if !c.decoded {
		if c.links.hash = events.HashOf(r.Payload); c.links.hash != r.Hash {
			c.broken(verdict.Tampered, r.Seq, singleWriter, "its recorded hash is %s, but its bytes have %s: the bytes were changed", r.Hash, c.links.hash)
		}
		e, err = events.Open(r.Payload, keyOf(r))
	}
	_, isSealed := errors.AsType[*events.SealedError](err)
	format, isFormat := errors.AsType[*events.FormatError](err)
	c.links.kinds, c.links.later = e.AppendKinds(c.links.kinds[:0]), isFormat
	switch {
	case isFormat:
		c.broken(verdict.Newer, r.Seq, wholeEntries, "it cannot be judged: %v", format)
		return e, e.Seq > 0
	case isSealed:
		c.links.intact = false
		c.links.closed = cmp.Or(c.links.closed, e.Seq)
	case errors.Is(err, events.ErrUnknownKind):
		c.broken(verdict.Newer, r.Seq, wholeEntries, "%v: a newer release wrote it", err)
		return e, true
	case err != nil:
		c.broken(verdict.Unreadable, r.Seq, wholeEntries, "it cannot be read: %v", err)
		return e, false
	}
	switch {
	case isSealed, e.IsExactly(r.Payload):
	case e.IsPartOf(r.Payload):
		c.broken(verdict.Newer, r.Seq, wholeEntries, "it has fields that this release does not know: a newer release wrote it")
	default:
		c.fault(verdict.Tampered, r.Seq, wholeEntries, "Turnlog would encode it differently: a field occurs twice or is in another form")
	}
	if len(c.links.kinds) == 0 {
		c.fault(verdict.Forged, r.Seq, wholeEntries, "it has no events")
	}
	for _, k := range c.links.kinds {
		if !events.Journaled(k) {
			c.broken(verdict.Forged, r.Seq, wholeEntries, "it has a %s, which is never stored", k)
		}
	}
	return e, true
}

// keyOf returns the key with which a record was opened, or nil.
func keyOf(r journal.Record) *seal.Key {
	if r.Entry.Sealing == nil {
		return nil
	}
	return r.Entry.Sealing.Key
}

// link compares the entry with the head of the chain.
func (c *Checker) link(r journal.Record, e events.Entry) {
	if e.Seq != r.Seq {
		c.broken(verdict.Tampered, r.Seq, singleWriter, "it is stored as entry %d, but its content says %d", r.Seq, e.Seq)
	}
	switch want := c.verdict.Head.Seq + 1; {
	case e.Seq > want && c.verdict.Entries == 0: // deletions remove entries from the front
		c.links.intact, c.links.epoch, c.links.signed = c.verdict.Tombstone != nil, e.Epoch, nil
		gap := c.about(verdict.Missing, e.Seq, singleWriter, "entry %d is expected here: %s", want, missing(want, e.Seq-1))
		c.links.removed = &gap
	case e.Seq > want:
		c.broken(verdict.Missing, e.Seq, singleWriter, "entry %d is expected here: %s", want, missing(want, e.Seq-1))
		c.links.epoch, c.links.signed = e.Epoch, nil // a missing entry claimed it
	case e.Seq < want:
		c.broken(verdict.Tampered, e.Seq, singleWriter, "entry %d is expected here: this one is a repetition or out of order", want)
	case e.Prev != c.verdict.Head.Hash:
		c.broken(verdict.Replaced, e.Seq, singleWriter, "it follows an entry with hash %s, but the previous entry has %s: one of the two was changed or replaced", e.Prev, c.verdict.Head.Hash)
	}
	if s := cmp.Or(c.verdict.Session, e.Session); e.Session != s {
		c.broken(verdict.Foreign, e.Seq, singleWriter, "it belongs to session %s, not to %s", e.Session, s)
	}
	c.claims(e)
	if at := c.links.at; e.At < at {
		c.warn(verdict.Forged, e.Seq, timeGoesOn, "its time %s is earlier than that of the previous entry, %s", e.At, at)
	}
	c.links.at = e.At
	c.timed(r, e)
	c.move(e)
}

// clocks is the maximum difference between the clocks of a driver and the store, including the time of an append.
const clocks = 5 * time.Minute

// timed compares the entry's time with the store's. A difference is only a warning, once for consecutive entries.
// Neither time is proved: either side can write a different one, clocks can be wrong, and a copied stream has new
// times.
func (c *Checker) timed(r journal.Record, e events.Entry) {
	apart := !r.Stored.IsZero() && e.At.Std().Sub(r.Stored).Abs() > clocks
	if apart && !c.links.apart {
		c.warn(verdict.Forged, e.Seq, timeGoesOn, "its time %s is more than %s from the time at which the store got it", e.At, clocks)
	}
	c.links.apart = apart
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
	if c.links.later && e.Epoch >= c.links.epoch { // it may claim the session, or belong to its host
		c.links.epoch, c.links.parked, c.links.signed = e.Epoch, false, nil
		return
	}
	kinds := c.links.kinds
	parked := c.links.parked && !slices.Contains(kinds, events.KindDriverClaimed)
	parks := slices.Contains(kinds, events.KindParked)
	c.links.parked = parks
	for i, ev := range e.Events {
		claim, ok := ev.(events.DriverClaimed)
		if !ok {
			continue
		}
		if i > 0 {
			c.fault(verdict.Forged, e.Seq, epochRises, "a claim is not the first event of its entry")
		}
		if claim.Epoch <= c.links.epoch {
			c.fault(verdict.Forged, e.Seq, epochRises, "a host claims epoch %d after epoch %d", claim.Epoch, c.links.epoch)
		}
		c.links.epoch = max(c.links.epoch, claim.Epoch)
		c.checked(e.Seq, claim)
	}
	switch {
	case c.links.epoch == 0:
		c.fault(verdict.Forged, e.Seq, epochRises, "it was written before any host claimed the session")
	case e.Epoch != c.links.epoch:
		c.fault(verdict.Forged, e.Seq, epochRises, "it was written in epoch %d, but epoch %d holds the session", e.Epoch, c.links.epoch)
	case parked && (!parks || len(kinds) > 1) && c.verdict.Tombstone == nil: // a node that drains may park it once more
		c.fault(verdict.Forged, e.Seq, epochRises, "the host of epoch %d had parked the session: another one must claim it first", e.Epoch)
	}
}

// checked checks the entry that a claim names as the last one with a signature by its key.
func (c *Checker) checked(seq uint64, claim events.DriverClaimed) {
	if c.links.signed == nil && seq == 1 {
		c.links.signed = map[string]uint64{}
	}
	if c.links.signed != nil {
		c.links.signed[c.links.key], c.links.key = seq-1, claim.Key
	}
	if last := c.links.signed[claim.Key]; claim.Checked > 0 && claim.Checked != last && (c.links.signed != nil || claim.Checked >= seq) {
		c.fault(verdict.Forged, seq, epochRises, "a host says that it checked entry %d as the last one that its key signed, but that is entry %d", claim.Checked, last)
	}
}

func (c *Checker) move(e events.Entry) {
	if c.links.cursors == nil {
		c.links.cursors = map[events.Lane]events.Cursor{}
	}
	for _, cur := range e.Cursors {
		// In a stream that lost messages, sequences start again, but times still rise.
		if last := c.links.cursors[cur.Lane]; cur.Seq < last.Seq && cur.At <= last.At {
			c.fault(verdict.Forged, e.Seq, cursorsRise, "the cursor of lane %q falls from %d to %d", cur.Lane, last.Seq, cur.Seq)
		}
		c.links.cursors[cur.Lane] = cur
	}
}

// broken records a fault after which later entries cannot be interpreted.
func (c *Checker) broken(kind verdict.Kind, seq uint64, invariant, format string, args ...any) {
	c.links.intact = false
	c.fault(kind, seq, invariant, format, args...)
}
