package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Anchor is where a journal once ended. Stored out of reach of anyone who can write
// journals, it shows what a chain alone cannot: that entries were cut off at the end, or
// that all entries from one on were replaced.
type Anchor struct {
	Session content.SessionID `json:"session"`
	Seq     uint64            `json:"seq"`
	Hash    events.Hash       `json:"hash"`
}

// ErrBadAnchor is returned by ReadAnchors for a line that is not an anchor.
var ErrBadAnchor = errors.New("bad anchor")

// maxAnchor bounds a line, which may have members that are not read.
const maxAnchor = 1 << 16

// ReadAnchors reads anchors, one JSON object per line.
func ReadAnchors(in io.Reader) ([]Anchor, error) {
	var out []Anchor
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxAnchor)
	n := 0
	for lines.Scan() {
		n++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var a Anchor
		err := json.Unmarshal(lines.Bytes(), &a)
		if err == nil && (a.Session == "" || a.Seq == 0 || a.Hash.IsZero()) {
			err = errors.New("session, seq and hash are needed")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", n, ErrBadAnchor, err)
		}
		out = append(out, a)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return out, nil
}

// Anchored adds anchors to check. Those of other sessions are ignored. It must be called
// before the first Add.
func (c *Checker) Anchored(anchors ...Anchor) {
	for _, a := range anchors {
		c.anchors = append(c.anchors, anchored{Anchor: a})
	}
}

// anchored is an anchor and what was found of it.
type anchored struct {
	Anchor

	seen bool
	is   events.Hash // of the entry with that number
}

// pass records the hash of an entry that an anchor names.
func (c *Checker) pass(seq uint64, hash events.Hash) {
	for i := range c.anchors {
		if a := &c.anchors[i]; a.Seq == seq && !a.seen {
			a.seen, a.is = true, hash
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
			fail(a, "its hash is %s, but was %s: this entry, or one before it, was replaced", a.is, a.Hash)
		case a.seen:
		case d == nil && r.Seq == 0:
			fail(a, "it was there, with the hash %s, but the journal is gone, and no tombstone says why", a.Hash)
		case d == nil && r.Seq < a.Seq:
			fail(a, "it was there, with the hash %s, but the journal ends with entry %d: its end was cut off", a.Hash, r.Seq)
		case d == nil: // missing in between, which the chain reports
		case a.Seq == d.Entries && a.Hash != d.Last:
			fail(a, "its hash was %s, but the session was deleted after %s: the entry was replaced before", a.Hash, d.Last)
		case a.Seq > d.Entries+1:
			fail(a, "it was there, but the session was deleted after entry %d: the journal's end was cut off before", d.Entries)
		}
	}
	return out
}
