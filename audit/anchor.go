package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Anchor is an earlier head of a journal. If it is stored where writers of journals cannot change
// it, it detects changes that leave a valid chain: entries that were cut off at the end, and an end
// that was replaced.
type Anchor struct {
	Session content.SessionID `json:"session"`
	Seq     uint64            `json:"seq"`
	Hash    events.Hash       `json:"hash"`

	At       content.Time     `json:"at,omitempty"`       // time of the entry; 0: unknown
	Deletion *events.Deletion `json:"deletion,omitempty"` // the entry is this tombstone; nil: it is not a tombstone, or that is unknown
}

// ErrBadAnchor is returned by ReadAnchors for input that is not an anchor.
var ErrBadAnchor = errors.New("bad anchor")

// ReadAnchors reads anchors, one JSON object per line. Other members are ignored.
func ReadAnchors(in io.Reader) (all []Anchor, err error) {
	for lines := json.NewDecoder(in); ; {
		var line struct {
			Anchor

			At json.RawMessage `json:"at"`
		}
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		a := line.Anchor
		if json.Unmarshal(line.At, &a.At) != nil {
			a.At = 0 // another program wrote it
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

// Anchored adds anchors to check. Anchors of other sessions are ignored. Call it before the first
// Add.
func (c *Checker) Anchored(anchors ...Anchor) {
	if c.anchors == nil {
		c.anchors = map[uint64][]anchored{}
	}
	for _, a := range anchors {
		c.anchors[a.Seq] = append(c.anchors[a.Seq], anchored{Anchor: a})
	}
}

// anchored is an anchor, and the journal's entry with the same number.
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

// judgeAnchors adds to v the results for the session's anchors: held, contradicted, or covered by the
// tombstone.
func (c *Checker) judgeAnchors(v *verdict.Verdict) {
	for _, seq := range slices.Sorted(maps.Keys(c.anchors)) {
		for _, a := range c.anchors[seq] {
			if v.Session != "" && a.Session != v.Session {
				continue
			}
			if kind, what := c.faultOf(a, v); kind != "" {
				v.Add(verdict.Fault{Kind: kind, Seq: a.Seq, Invariant: anchorsHeld, What: what})
			} else if a.seen {
				v.Anchors++
				v.Prove(verdict.Proof{Level: verdict.Anchored, Through: verdict.Point{Seq: v.Covered(a.Seq, a.Hash), At: a.at}})
			}
		}
	}
}

// faultOf returns what is wrong with the anchored entry, or "" if it is held, or was not read because of
// another fault.
func (c *Checker) faultOf(a anchored, v *verdict.Verdict) (verdict.Kind, string) {
	d := v.Tombstone
	if r, lost := a.LostIn(v.Restores); lost && !c.stopped && (!a.seen || a.is != a.Hash) {
		return verdict.Restored, a.lostBy(r)
	}
	held := a.seen && a.is == a.Hash
	if i := slices.IndexFunc(v.Moves, func(m verdict.Move) bool { return m.Seq == a.Seq && m.Tombstone == a.Hash }); i >= 0 && a.seen {
		// A claim can name any hash. Only the tombstone proves that the claim continues this journal.
		if held = v.Moves[i].Proved || a.Deletion != nil && a.Deletion.MovedTo != nil && a.Deletion.Last == v.Moves[i].Last; !held {
			return verdict.Moved, "the journal claims that this was the tombstone of a move from another deployment, but does not have it"
		}
	}
	moved := d != nil && d.MovedTo != nil
	switch {
	case held:
		return "", ""
	case moved && a.Seq > d.Entries:
		return verdict.Moved, elsewhere(d)
	case a.seen:
		return verdict.Replaced, fmt.Sprintf("its hash is %s, but it was %s: this entry or an earlier one was replaced", a.is, a.Hash)
	case c.stopped:
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
	if moved {
		return v.State, elsewhere(d)
	}
	return v.State, "the tombstone covers it, so the anchor cannot be compared"
}

// elsewhere says where the entry of a moved session is.
func elsewhere(d *events.Deletion) string {
	return fmt.Sprintf("the session was moved to %s, which has its journal: verify it there", d.MovedTo)
}

// LostIn returns the restore that explains why an entry is gone, if there is one. A backup has everything that was recorded
// before it began.
func (a Anchor) LostIn(restores []verdict.Restore) (by verdict.Restore, lost bool) {
	for _, r := range restores {
		if a.Seq < r.Seq || a.At > r.At || a.At > 0 && r.Taken.Sub(a.At) > clocks {
			continue
		}
		return r, true
	}
	return by, false
}

// lostBy says how a restore explains why an entry is gone.
func (a Anchor) lostBy(r verdict.Restore) string {
	has := "does not have the session"
	if r.Seq > 1 {
		has = fmt.Sprintf("has entries through %d", r.Seq-1)
	}
	return fmt.Sprintf("it existed, with hash %s, and was lost: the deployment was restored at %s from backup %s of %s, which %s", a.Hash, r.At, r.Backup, r.Taken, has)
}

// Absent judges the anchors of a journal that does not exist, given the restores of its deployment: a restore explains the loss, or
// the entries are missing. Call it after Verify has found no entry.
func Absent(v *verdict.Verdict, restores []verdict.Restore, anchors ...Anchor) {
	v.Restores = restores
	for i, f := range v.Faults {
		for _, a := range anchors {
			if r, lost := a.LostIn(restores); lost && f.Kind == verdict.Missing && f.Invariant == anchorsHeld && f.Seq == a.Seq {
				v.Faults[i].Kind, v.Faults[i].What = verdict.Restored, a.lostBy(r)
			}
		}
	}
	v.Settle()
}

// Claims is what a journal says about restores of its deployment from backups. The deployment itself also records them.
type Claims struct {
	began, last content.Time // times of the first and the latest entry
	arrived     content.Time // when the session was moved to the deployment; 0: it was always there
	restores    []claimed    // restores since then
	partial     bool         // it was deleted, or not read to its end
}

// claimed is a restore that an entry records.
type claimed struct {
	verdict.Restore

	before content.Time // time of the entry before it
}

// Watch yields the records unchanged, and adds them.
func (c *Claims) Watch(records iter.Seq2[journal.Record, error]) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for r, err := range records {
			if err == nil {
				c.Add(r)
			} else {
				c.partial = true
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// Add adds the next record.
func (c *Claims) Add(r journal.Record) {
	e := r.Entry
	if c.began == 0 {
		c.began = e.At
	}
	if _, deleted := events.DeletionOf(e); deleted {
		c.partial = true
	}
	if events.MovedFromOf(e) != nil { // earlier restores belong to the other deployment
		c.arrived, c.restores = e.At, nil
	}
	if by := events.RestoredOf(e); by != nil {
		c.restores = append(c.restores, claimed{verdict.Restore{Seq: r.Seq, At: e.At, Restored: *by}, c.last})
	}
	c.began, c.last = min(c.began, e.At), e.At
}

// Compare returns a fault for each restore that only the journal names, or only the deployment. A restore writes one entry in every
// session of the backup.
func (c *Claims) Compare(restores []verdict.Restore) (faults []verdict.Fault) {
	left := slices.Clone(restores)
	for _, says := range c.restores {
		i := slices.IndexFunc(left, func(r verdict.Restore) bool {
			return r.Restored == says.Restored && says.At == max(r.At, says.before) && says.before.Sub(r.At) <= clocks
		})
		if i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		faults = append(faults, verdict.Fault{Kind: verdict.Forged, Seq: says.Seq, What: fmt.Sprintf(
			"it says that the deployment was restored at %s from backup %s of %s, but the deployment does not", says.At, says.Backup, says.Taken)})
	}
	for _, r := range left {
		here := !c.partial && c.began > 0 && (c.arrived == 0 || r.Taken.Sub(c.arrived) > clocks)
		if here && r.Taken.Sub(c.began) > clocks {
			faults = append(faults, verdict.Fault{Kind: verdict.Forged, What: fmt.Sprintf(
				"the deployment says that it was restored from backup %s of %s, but this session, which is older, does not", r.Backup, r.Taken)})
		}
	}
	return faults
}
