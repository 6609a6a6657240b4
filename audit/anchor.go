package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/turnlog/turnlog/audit/verdict"
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
		if err == nil && (!content.IsToken(string(a.Session)) || a.Seq == 0 || a.Hash.IsZero()) {
			err = errors.New("session, seq and hash are required, and session is an id")
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
	if c.anchors == nil {
		c.anchors = map[uint64][]anchored{}
	}
	for _, a := range anchors {
		c.anchors[a.Seq] = append(c.anchors[a.Seq], anchored{Anchor: a})
	}
}

// anchored is an anchor, and the journal's entry with its number.
type anchored struct {
	Anchor

	seen bool
	is   events.Hash
	at   content.Time
}

// pass records the latest entry for the anchors that name it.
func (c *Checker) pass(seq uint64, at content.Time) {
	for i := range c.anchors[seq] {
		if a := &c.anchors[seq][i]; !a.seen {
			a.seen, a.is, a.at = true, c.verdict.Head.Hash, at
		}
	}
}

// drift adds to v what became of the session's anchors: they are held, contradicted, or covered by
// the tombstone.
func (c *Checker) drift(v *verdict.Verdict) {
	for _, seq := range slices.Sorted(maps.Keys(c.anchors)) {
		for _, a := range c.anchors[seq] {
			if v.Session != "" && a.Session != v.Session {
				continue
			}
			if kind, what := c.fate(a, v); kind != "" {
				v.Add(verdict.Fault{Kind: kind, Seq: a.Seq, Invariant: anchorsHeld, What: what})
			} else if a.seen {
				v.Anchors++
				v.Prove(verdict.Proof{Level: verdict.Anchored, Through: verdict.Point{Seq: a.Seq, At: a.at}})
			}
		}
	}
}

// fate returns what is wrong with the anchored entry, and "" if it is held, or was not read because of
// another fault.
func (c *Checker) fate(a anchored, v *verdict.Verdict) (verdict.Kind, string) {
	d := v.Tombstone
	switch {
	case a.seen && a.is != a.Hash:
		return verdict.Replaced, fmt.Sprintf("its hash is %s, but it was %s: this entry or an earlier one was replaced", a.is, a.Hash)
	case a.seen, c.stopped:
		return "", ""
	case d == nil && v.Head.Seq == 0:
		return verdict.Missing, fmt.Sprintf("it existed, with hash %s, but the journal is gone and has no tombstone", a.Hash)
	case d == nil && v.Head.Seq < a.Seq:
		return verdict.Truncated, fmt.Sprintf("it existed, with hash %s, but the journal ends with entry %d: its end was cut off", a.Hash, v.Head.Seq)
	case d == nil: // missing in the middle, which the chain reports
		return "", ""
	case a.Seq == d.Entries && a.Hash != d.Last:
		return verdict.Replaced, fmt.Sprintf("its hash was %s, but the session was deleted after %s: the entry was replaced before that", a.Hash, d.Last)
	case a.Seq > d.Entries+1:
		return verdict.Truncated, fmt.Sprintf("it existed, but the session was deleted after entry %d: the journal's end was cut off before that", d.Entries)
	}
	return v.State, "the tombstone covers it: whether it still was as the anchor says cannot be known"
}
