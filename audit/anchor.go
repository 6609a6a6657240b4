package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Anchor is an earlier head of a journal. Stored where writers of journals cannot change it, it
// detects changes that leave a valid chain: entries that were cut off at the end, and an end that
// was replaced.
type Anchor struct {
	Session content.SessionID `json:"session"`
	Seq     uint64            `json:"seq"`
	Hash    events.Hash       `json:"hash"`
}

// ErrBadAnchor is returned by ReadAnchors for input that is not an anchor.
var ErrBadAnchor = errors.New("bad anchor")

// ReadAnchors reads anchors, one JSON object per line. Other members are ignored.
func ReadAnchors(in io.Reader) (all []Anchor, err error) {
	for lines := json.NewDecoder(in); ; {
		var a Anchor
		err := lines.Decode(&a)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err == nil && (a.Session == "" || a.Seq == 0 || a.Hash.IsZero()) {
			err = errors.New("session, seq and hash are required")
		}
		if err != nil {
			return nil, fmt.Errorf("anchor %d: %w: %w", len(all)+1, ErrBadAnchor, err)
		}
		all = append(all, a)
	}
}

// Anchored adds anchors to check. Those of other sessions are ignored. Call it before the first
// Add.
func (c *Checker) Anchored(anchors ...Anchor) {
	for _, a := range anchors {
		c.anchors = append(c.anchors, anchored{Anchor: a})
	}
}

// anchored is an anchor, and the journal's entry with its number.
type anchored struct {
	Anchor

	seen bool
	is   events.Hash
}

// pass records the hash of the latest entry if an anchor names it.
func (c *Checker) pass(seq uint64) {
	for i := range c.anchors {
		if a := &c.anchors[i]; a.Seq == seq && !a.seen {
			a.seen, a.is = true, c.report.Hash
		}
	}
}

// adrift returns the violations of the session's anchors.
func (c *Checker) adrift(r Report) []Violation {
	var out []Violation
	fail := func(a anchored, format string, args ...any) {
		out = append(out, Violation{Invariant: anchorsHeld, Seq: a.Seq, Message: fmt.Sprintf(format, args...)})
	}
	for _, a := range c.anchors {
		switch d := r.Deleted; {
		case r.Session != "" && a.Session != r.Session:
		case a.seen && a.is != a.Hash:
			fail(a, "its hash is %s, but it was %s: this entry or an earlier one was replaced", a.is, a.Hash)
		case a.seen:
		case d == nil && r.Seq == 0:
			fail(a, "it existed, with hash %s, but the journal is gone and has no tombstone", a.Hash)
		case d == nil && r.Seq < a.Seq:
			fail(a, "it existed, with hash %s, but the journal ends with entry %d: its end was cut off", a.Hash, r.Seq)
		case d == nil: // missing in the middle, which the chain reports
		case a.Seq == d.Entries && a.Hash != d.Last:
			fail(a, "its hash was %s, but the session was deleted after %s: the entry was replaced before that", a.Hash, d.Last)
		case a.Seq > d.Entries+1:
			fail(a, "it existed, but the session was deleted after entry %d: the journal's end was cut off before that", d.Entries)
		}
	}
	return out
}
