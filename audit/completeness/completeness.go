// Package completeness checks that everything that the log of heads ever stated is still true. It checks the log
// itself, and compares the journals of a cell with it.
//
// A chain cannot show what is missing, but the log can. Every logged session must still have the logged entry with
// its hash, or the tombstone of its deletion. And the log must still have everything that an earlier proof shows.
package completeness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/heads"
)

// Fault is one finding, about a session or, without one, about the log.
type Fault struct {
	Session content.SessionID `json:"session,omitempty"`
	verdict.Fault
}

// String renders the fault in one line.
func (f Fault) String() string {
	if f.Session == "" {
		return "log: " + f.Fault.String()
	}
	return fmt.Sprintf("session %s: %s", f.Session, f.Fault)
}

// Report is what an audit of the log found.
type Report struct {
	Log       string   `json:"log"`       // its origin
	Size      int64    `json:"size"`      // size of the published checkpoint
	Root      string   `json:"root"`      // in base64
	Witnesses []string `json:"witnesses"` // the witnesses that cosigned it
	Witnessed bool     `json:"witnessed"` // the witnesses suffice for the policy
	Sessions  int      `json:"sessions"`  // how many sessions the log names
	Deleted   int      `json:"deleted"`   // how many of these have a tombstone
	Directory uint64   `json:"directory"` // the newest version of the directory of keys that the log has; 0: none, or it was not compared
	Faults    []Fault  `json:"faults"`    // what cannot be judged comes last

	Restores []verdict.Restore `json:"restores,omitempty"` // restores from backups that the deployment itself records
}

// Judged reports whether there is a real fault, not only something that cannot be judged.
func (r *Report) Judged() bool {
	return slices.ContainsFunc(r.Faults, func(f Fault) bool { return f.Kind.Judged() })
}

func (r *Report) fault(s content.SessionID, kind verdict.Kind, seq uint64, format string, args ...any) {
	r.Faults = append(r.Faults, Fault{s, verdict.Fault{Kind: kind, Seq: seq, What: fmt.Sprintf(format, args...)}})
}

// KindOf returns the kind of fault for an error of package headlog or heads, or "" if it is not a fault.
func KindOf(err error) verdict.Kind {
	is := func(any ...error) bool {
		return slices.ContainsFunc(any, func(e error) bool { return errors.Is(err, e) })
	}
	switch {
	case is(headlog.ErrForged):
		return verdict.Forged
	case is(headlog.ErrUnknownLog):
		return verdict.Foreign
	case is(headlog.ErrBadProof, headlog.ErrBadCheckpoint, headlog.ErrNotAHead):
		return verdict.Unreadable
	case is(headlog.ErrNotIncluded, headlog.ErrInconsistent, headlog.ErrBadState, heads.ErrDamaged):
		return verdict.Tampered
	}
	return ""
}

// Check audits the log of a cell. earlier has proofs that were made before, for any session, and with is the directory of
// keys, whose versions the log has. Faults are in the report. The error is heads.ErrNoLog if there is no log and no earlier
// proof; otherwise it means that reading failed.
//
// restores has the restores that the deployment records. They excuse the log for losing what witnesses saw only after the
// backup began.
func Check(
	ctx context.Context, cell *jetstream.Cell, by *headlog.Policy, earlier []headlog.Proof, with Keys, restores []verdict.Restore,
) (*Report, error) {
	c := &check{
		Report: &Report{Witnesses: []string{}, Faults: []Fault{}, Restores: restores}, cell: cell, store: heads.Of(cell), by: by, keys: with,
	}
	err := c.log(ctx, earlier)
	if kind := KindOf(err); kind != "" {
		c.fault("", kind, 0, "%v", err)
		err = nil
	}
	for _, s := range slices.Sorted(maps.Keys(c.leaves)) {
		if err != nil {
			break
		}
		err = c.session(ctx, s, c.leaves[s])
	}
	c.Sessions = len(c.leaves)
	if err == nil && c.leaves != nil {
		err = c.unlogged(ctx)
	}
	if err == nil {
		err = c.directory(ctx)
	}
	slices.SortStableFunc(c.Faults, func(a, b Fault) int { return verdict.Order(a.Fault, b.Fault) })
	return c.Report, err
}

type check struct {
	*Report

	cell   *jetstream.Cell
	store  *heads.Store
	by     *headlog.Policy
	keys   Keys
	leaves map[content.SessionID]map[uint64]leaf

	cosigned content.Time // when witnesses saw the log; 0: none did

	listings []listing // the root's listings, in the order of the log
	heads    []logged  // logged heads that the journals have
}

// leaf is the first place where the log has an entry.
type leaf struct {
	hash  events.Hash
	index int64
}

// log verifies the log and reads its leaves.
func (c *check) log(ctx context.Context, earlier []headlog.Proof) error {
	signed, _, err := c.store.Published(ctx)
	if errors.Is(err, heads.ErrNoLog) && len(earlier) > 0 {
		c.fault("", verdict.Missing, 0, "the log is missing, but an earlier proof has a checkpoint of it")
		return nil
	}
	if err != nil {
		return err
	}
	at, err := c.by.Open(signed)
	if err != nil {
		return fmt.Errorf("the published checkpoint: %w", err)
	}
	c.Log, c.Size, c.Root, c.Witnessed, c.cosigned = at.Origin, at.N, at.Hash.String(), at.Quorum, at.By()
	for _, w := range at.Cosignatures {
		c.Witnesses = append(c.Witnesses, w.Witness)
	}
	state, _, err := c.store.State(ctx)
	if err != nil {
		return err
	}
	r, err := c.store.Reader(ctx, state, at.Tree)
	if err != nil {
		return err
	}
	for _, p := range earlier {
		if err := c.continues(r, at, p); err != nil {
			return err
		}
	}
	c.leaves = map[content.SessionID]map[uint64]leaf{}
	return r.Leaves(0, func(i int64, text []byte) error {
		if l, err := headlog.ParseLeaf(text); err == nil && l.Cell == c.cell.Namespace() { // ignores other kinds of leaves
			c.add(l, i)
		}
		if l, err := headlog.ParseListing(text); err == nil && l.Cell == c.cell.Namespace() && l.Root == c.keys.Root {
			c.listings = append(c.listings, listing{l, i})
		}
		return nil
	})
}

// continues checks that the log continues the log of an earlier proof.
func (c *check) continues(r *headlog.Reader, now headlog.Witnessed, p headlog.Proof) error {
	was, err := p.Verify(c.by)
	switch {
	case err != nil:
		c.fault(p.Leaf.Session, KindOf(err), p.Leaf.Seq, "an earlier proof: %v", err)
		return nil
	case was.Origin != now.Origin:
		c.fault("", verdict.Replaced, 0, "an earlier proof is of the log %s", was.Origin)
		return nil
	case was.N > now.N:
		if r, lost := (audit.Anchor{At: was.By()}).LostIn(c.Restores); lost {
			c.fault("", verdict.Restored, 0, "an earlier proof has a checkpoint of size %d, but the size is now %d: the deployment was restored at %s from backup %s of %s",
				was.N, now.N, r.At, r.Backup, r.Taken)
			return nil
		}
		c.fault("", verdict.RolledBack, 0, "an earlier proof has a checkpoint of size %d, but the size is now %d", was.N, now.N)
		return nil
	}
	proof, err := r.ProveConsistency(was.N)
	if err == nil && tlog.CheckTree(proof, now.N, now.Hash, was.N, was.Hash) != nil {
		c.fault("", verdict.Replaced, 0, "an earlier proof has the root %s for size %d, which the log does not continue", was.Hash, was.N)
	}
	return err
}

// add adds a leaf. Two different hashes for one entry of a session are a fault.
func (c *check) add(l headlog.Leaf, index int64) {
	if c.leaves[l.Session] == nil {
		c.leaves[l.Session] = map[uint64]leaf{}
	}
	other, ok := c.leaves[l.Session][l.Seq]
	if ok && other.hash != l.Hash {
		c.fault(l.Session, verdict.Replaced, l.Seq, "the log has two hashes of this entry: %s, then %s", other.hash, l.Hash)
	}
	if !ok || other.hash != l.Hash {
		c.leaves[l.Session][l.Seq] = leaf{l.Hash, index}
	}
}

// behind is how long an entry may be stored before it must be in the log that the witnesses saw. A notary logs an entry within a
// minute, or as soon as it runs again.
const behind = 10 * time.Minute

// unlogged checks that no session is left out of the log.
func (c *check) unlogged(ctx context.Context) error {
	all, err := c.cell.Journal().Lengths(ctx)
	if err != nil {
		return err
	}
	for _, s := range slices.Sorted(maps.Keys(all)) {
		if c.leaves[s] != nil {
			continue
		}
		for rec, err := range c.cell.Journal().Read(ctx, s, 0) {
			if errors.Is(err, journal.ErrDamaged) { // or being moved here
				break
			}
			if err != nil {
				return err
			}
			if c.late(s, 0, rec) {
				break
			}
		}
	}
	return nil
}

// late reports whether the log should have an entry that follows the newest one that it has.
func (c *check) late(s content.SessionID, newest uint64, rec journal.Record) bool {
	if rec.Stored.IsZero() || c.cosigned.Sub(content.TimeOf(rec.Stored)) < behind {
		return false
	}
	lacks := "the session"
	if newest > 0 {
		lacks = fmt.Sprintf("what follows entry %d", newest)
	}
	c.fault(s, verdict.Missing, rec.Seq, "the log does not have %s, although this entry was stored at %s and witnesses saw the log at %s: it was left out, or the notary was not running until just now",
		lacks, content.TimeOf(rec.Stored), c.cosigned)
	return true
}

// session compares the journal of a session with its leaves.
func (c *check) session(ctx context.Context, s content.SessionID, leaves map[uint64]leaf) error {
	last, err := c.cell.Journal().Last(ctx, s)
	newest := slices.Max(slices.Collect(maps.Keys(leaves)))
	switch {
	case errors.Is(err, journal.ErrNotFound):
		c.fault(s, verdict.Missing, newest, "the log has it, but the journal is gone and has no tombstone")
		return nil
	case errors.Is(err, journal.ErrDamaged):
		c.fault(s, audit.DamageOf(err), newest, "%v", err)
		return nil
	case err != nil:
		return err
	}
	if newest > last.Seq {
		c.fault(s, verdict.Truncated, newest, "the log has it, but the journal ends with entry %d", last.Seq)
	}
	return c.entries(ctx, s, leaves)
}

// entries compares the entries of a journal with their leaves.
func (c *check) entries(ctx context.Context, s content.SessionID, leaves map[uint64]leaf) error {
	next, newest := slices.Min(slices.Collect(maps.Keys(leaves))), slices.Max(slices.Collect(maps.Keys(leaves)))
	late := false
	var says audit.Claims
	for rec, err := range c.cell.Journal().Read(ctx, s, 0) {
		d, deleted := events.DeletionOf(rec.Entry)
		switch {
		case errors.Is(err, journal.ErrDamaged):
			c.fault(s, audit.DamageOf(err), rec.Seq, "%v", err)
			return nil
		case err != nil:
			return err
		}
		if says.Add(rec); rec.Seq < next {
			continue // no leaf covers it yet
		}
		late = late || rec.Seq > newest && c.late(s, newest, rec)
		switch {
		case deleted && !d.Erased: // what was before may be gone
			c.compare(s, leaves, d.Entries, d.Last)
		case rec.Seq != next:
			c.fault(s, verdict.Missing, next, "the log has it, but the journal continues with entry %d", rec.Seq)
		}
		if deleted {
			c.Deleted++
		}
		next = rec.Seq + 1
		switch from := events.MovedFromOf(rec.Entry); {
		case from == nil || from.Tombstone != leaves[rec.Seq].hash:
			c.compare(s, leaves, rec.Seq, rec.Hash)
		case !from.Proves(rec.Entry):
			c.fault(s, verdict.Moved, rec.Seq, "the journal claims that this was the tombstone of a move, after which the session came back, but does not have it")
		}
		if l, ok := leaves[rec.Seq]; ok && l.hash == rec.Hash {
			c.heads = append(c.heads, logged{headlog.Leaf{Session: s, Seq: rec.Seq}, l.index, signed.At(rec)})
		}
	}
	for _, f := range says.Compare(c.Restores) {
		c.Faults = append(c.Faults, Fault{s, f})
	}
	return nil
}

// compare compares an entry with its leaf, if it has one.
func (c *check) compare(s content.SessionID, leaves map[uint64]leaf, seq uint64, is events.Hash) {
	if want, ok := leaves[seq]; ok && want.hash != is {
		c.fault(s, verdict.Replaced, seq, "its hash is %s, but the log has %s: this entry or an earlier one was replaced", is, want.hash)
	}
}
