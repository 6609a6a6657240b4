// Package verdict is the vocabulary in which evidence is judged: kinds of faults, levels of proof, and what
// a verifier says about one journal.
//
// Each check of one kind of evidence adds faults and [Proof]s to a [Verdict]. Settle then decides the level.
// The levels form a ladder, chain < signed < anchored < witnessed:
//
//   - Any fault, and a session that was deleted or has expired, means none.
//   - A level holds only if all levels below it do, with one exception. Signatures can be checked only by a
//     verifier who has the keys. With keys ([Verdict.Keys]), a journal without valid signatures stays at chain,
//     whatever anchors and witnesses say. Without keys, the level signed is passed over, and what was not proved
//     includes who wrote the entries.
//   - A level covers the journal through one entry ([Verdict.Through]): chain through its end, signed through its last
//     entry that is not an unsigned tombstone, anchored and witnessed through the last head that was kept elsewhere.
//     [Verdict.BeyondAnchor] counts the entries after that.
//
// The package checks no evidence itself: package audit checks chains.
package verdict

import (
	"fmt"
	"maps"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Exit codes of verifiers, besides those that all programs share.
const (
	ExitReached  = 0 // the required level is reached
	ExitFault    = 1 // there is a fault
	ExitBelow    = 6 // no fault, but the required level is not reached
	ExitUnjudged = 7 // no fault, but something cannot be judged: a later format, an anchor covered by a tombstone or lost in a restore
	ExitGone     = 8 // no fault, but the session was deleted, has expired, or was erased
)

// Point is an entry and a time by which it existed.
type Point struct {
	Seq uint64       `json:"seq"`
	At  content.Time `json:"at"` // by the driver's clock, or for witnesses by theirs
}

// Head is the end of a journal.
type Head struct {
	Seq  uint64      `json:"seq"`
	Hash events.Hash `json:"hash"`
}

// Verdict is what a verifier says about one journal.
type Verdict struct {
	Level        Level             `json:"level"`
	Session      content.SessionID `json:"session"`
	Entries      int               `json:"entries"`       // number of entries read
	Through      Point             `json:"through"`       // the last entry that Level covers
	Witnesses    []string          `json:"witnesses"`     // the witnesses that cosigned
	Faults       []Fault           `json:"faults"`        // the first real one first
	OpenTurn     content.TurnID    `json:"open_turn"`     // the journal ends inside it; empty: between turns
	BeyondAnchor uint64            `json:"beyond_anchor"` // number of entries after the last anchored one; without anchors, all
	NotProved    []string          `json:"not_proved"`

	// State is Deleted, Expired, Erased or Moved, or empty. Without faults, the proof of the state is intact.
	State     Kind             `json:"state,omitempty"`
	Tombstone *events.Deletion `json:"tombstone,omitempty"`

	// Restores are the restores of the deployment from backups that the journal records.
	Restores []Restore `json:"restores,omitempty"`

	// Moves are the moves of the session from other deployments that the journal records.
	Moves []Move `json:"moves,omitempty"`

	Head          Head                 `json:"head"`
	Events        int                  `json:"events"`
	Turns         int                  `json:"turns"` // started
	OpenApprovals []content.ApprovalID `json:"open_approvals,omitempty"`
	Anchors       int                  `json:"anchors"` // earlier heads that are still in the journal
	Warnings      []Fault              `json:"warnings,omitempty"`

	// Signers lists who signed what, and what is unsigned. Without keys it is empty.
	Signers []Signer `json:"signers,omitempty"`

	// UnjudgedFrom is the first entry whose events were not checked, only the chain, because the entry or
	// an earlier one cannot be interpreted. Zero: everything was checked.
	UnjudgedFrom uint64 `json:"unjudged_from,omitempty"`

	// UncheckedFiles counts the referenced files whose bytes were not checked.
	UncheckedFiles int `json:"unchecked_files,omitempty"`

	// UncheckedOrigin names the entry of the origin of a fork, and why the histories were not compared.
	UncheckedOrigin string `json:"unchecked_origin,omitempty"`

	// UnjudgedSnapshots counts the snapshots whose digests were not computed again.
	UnjudgedSnapshots int `json:"unjudged_snapshots,omitempty"`

	// Keys says that the verifier has keys, so that a journal that is not signed stays at the level chain.
	Keys bool `json:"-"`

	last   content.Time // of the head
	proofs map[Level]Proof
	doubts []string
}

// Restore is a restore of the deployment from a backup. Entries recorded between the backup and the restore are lost.
type Restore struct {
	Seq uint64       `json:"seq,omitempty"` // the entry that records it; 0: the deployment records it for all its sessions
	At  content.Time `json:"at"`            // latest possible time of the restore

	events.Restored
}

// Move is a move of the session from another deployment. All entries before it were recorded there.
type Move struct {
	Seq uint64       `json:"seq"` // the entry that records it
	At  content.Time `json:"at"`

	Last   events.Hash `json:"-"` // of the entry before it
	Proved bool        `json:"-"` // it has the tombstone

	events.MovedFrom
}

// Signer says how much of one kind is signed with one key.
type Signer struct {
	What  string `json:"what"`   // entries, input, decisions or results
	Name  string `json:"signer"` // the owner of the key; "": unknown, or not signed
	Key   string `json:"key"`    // id of the key; "": not signed
	Count uint64 `json:"count"`
}

// String describes the signer in a few words.
func (s Signer) String() string {
	switch {
	case s.Key == "":
		return fmt.Sprintf("%s: %d, unsigned", s.What, s.Count)
	case s.Name == "":
		return fmt.Sprintf("%s: %d, by the unknown key %s", s.What, s.Count, s.Key)
	}
	return fmt.Sprintf("%s: %d, by %s (key %s)", s.What, s.Count, s.Name, s.Key)
}

// Proof is evidence beyond the chain.
type Proof struct {
	Level   Level // Signed, Anchored or Witnessed
	Through Point
	By      []string // the witnesses
}

// Clone returns a deep copy.
func (v *Verdict) Clone() *Verdict {
	c := *v
	c.Faults, c.Warnings, c.proofs = slices.Clone(v.Faults), slices.Clone(v.Warnings), maps.Clone(v.proofs)
	c.doubts, c.Restores = slices.Clone(v.doubts), slices.Clone(v.Restores)
	c.Moves = slices.Clone(v.Moves)
	return &c
}

// OK reports whether there is no fault, and nothing that cannot be judged.
func (v *Verdict) OK() bool { return len(v.Faults) == 0 }

// First returns the first fault, if there is one.
func (v *Verdict) First() (Fault, bool) {
	if v.OK() {
		return Fault{}, false
	}
	return v.Faults[0], true
}

// Add adds a fault.
func (v *Verdict) Add(f Fault) { v.Faults = append(v.Faults, f) }

// End sets the head of the journal.
func (v *Verdict) End(seq uint64, hash events.Hash, at content.Time) {
	v.Head, v.last = Head{seq, hash}, at
}

// Prove adds evidence. Among several proofs of one level, the one that covers the most entries counts.
func (v *Verdict) Prove(p Proof) {
	if v.proofs == nil {
		v.proofs = map[Level]Proof{}
	}
	if old, ok := v.proofs[p.Level]; !ok || p.Through.Seq > old.Through.Seq {
		v.proofs[p.Level] = p
	}
}

// Covered returns the last entry that a head covers. That is seq, unless the session left with that head as its tombstone: then another
// entry is at that place.
func (v *Verdict) Covered(seq uint64, hash events.Hash) uint64 {
	if slices.ContainsFunc(v.Moves, func(m Move) bool { return m.Seq == seq && m.Tombstone == hash }) {
		return seq - 1
	}
	return seq
}

// Doubt adds something that the evidence does not show, to what Settle itself lists.
func (v *Verdict) Doubt(what string) { v.doubts = append(v.doubts, what) }

// Settle decides the level from the faults and proofs, and lists what is not proved. Call it again after
// adding to them.
func (v *Verdict) Settle() {
	v.Level, v.Through, v.Witnesses = None, Point{v.Head.Seq, v.last}, []string{}
	if v.Faults == nil {
		v.Faults = []Fault{}
	}
	slices.SortStableFunc(v.Faults, Order)
	v.BeyondAnchor = v.Head.Seq
	for _, l := range []Level{Anchored, Witnessed} {
		if p, ok := v.proofs[l]; ok {
			v.BeyondAnchor = min(v.BeyondAnchor, v.Head.Seq-min(p.Through.Seq, v.Head.Seq))
		}
	}
	if v.holds() && v.Entries > 0 && !slices.Contains([]Kind{Deleted, Expired, Moved}, v.State) {
		v.climb()
	}
	v.NotProved = v.notProved()
}

// holds reports whether no fault affects the levels. Sealed content, or later entries lost in a restore, do not affect the
// chain, the signatures and the proofs.
func (v *Verdict) holds() bool {
	return !slices.ContainsFunc(v.Faults, func(f Fault) bool { return f.Kind != Sealed && f.Kind != Restored })
}

// Has reports whether there is a fault of a kind.
func (v *Verdict) Has(k Kind) bool {
	return slices.ContainsFunc(v.Faults, func(f Fault) bool { return f.Kind == k })
}

// Order compares faults for slices.SortStableFunc: real faults come before things that cannot be judged.
func Order(a, b Fault) int { return unjudged(a) - unjudged(b) }

func unjudged(f Fault) int {
	if f.Kind.Judged() {
		return 0
	}
	return 1
}

// climb raises the level to the highest that the proofs support.
func (v *Verdict) climb() {
	v.Level = Chain
	for _, l := range []Level{Signed, Anchored, Witnessed} {
		p, ok := v.proofs[l]
		switch {
		case ok:
			v.Level, v.Through, v.Witnesses = l, p.Through, append(v.Witnesses, p.By...)
		case l == Signed && v.Keys:
			return
		}
	}
}

// notProved lists what a reader might assume, but the evidence does not show.
func (v *Verdict) notProved() (out []string) {
	switch {
	case v.Level < Anchored:
		out = append(out, "completeness: entries after the last one may have been cut off, and the whole journal rewritten; no earlier head is held")
	case v.BeyondAnchor > 0:
		out = append(out, "completeness after the last anchor: later entries may have been changed or cut off")
	default:
		out = append(out, "completeness: entries after the last one may have been cut off")
	}
	switch _, signed := v.proofs[Signed]; {
	case signed:
		out = append(out, "who: names of workers, approvers and users that did not sign are the driver's word")
	case v.Keys:
		out = append(out, "who: it is unsigned, so the names of drivers, workers, approvers and users are the driver's word")
	default:
		out = append(out, "who: no keys were given, so no signature was checked, and the names of drivers, workers, approvers and users are the driver's word")
	}
	if v.State == Erased || v.Has(Sealed) && v.holds() {
		out = append(out, "content: what the sealed entries say, and whether it keeps the invariants")
	}
	if len(v.Restores) > 0 {
		out = append(out, fmt.Sprintf("restore: why, and what was lost, beyond what anchors and proofs name; that it happened, before entry %d, is the word of the operator", v.Restores[len(v.Restores)-1].Seq))
	}
	if v.Level < Witnessed {
		out = append(out, "time: each is by the clock of the driver that wrote the entry")
	}
	if v.UncheckedFiles > 0 {
		out = append(out, fmt.Sprintf("files: the bytes of %d that the journal refers to were not checked", v.UncheckedFiles))
	}
	if v.UncheckedOrigin != "" {
		out = append(out, "history: that it began with what another session had, at "+v.UncheckedOrigin)
	}
	if v.UnjudgedSnapshots > 0 {
		out = append(out, "snapshots: hosts may start from some whose digests were not computed again, since another release took them, or a hook withheld a reply of a long session")
	}
	out = append(out, v.doubts...)
	return append(out, "truth of results, and the identity of models: they are recorded as they arrived")
}

// Exit returns the exit code of a verifier that required a level. Only a verifier with keys reaches signed.
func (v *Verdict) Exit(required Level) int {
	for _, f := range v.Faults {
		if f.Kind.Judged() {
			return ExitFault
		}
	}
	switch {
	case !v.OK():
		return ExitUnjudged
	case v.State != "":
		return ExitGone
	case v.Level < required, required == Signed && !v.Keys: // higher levels pass signed over without keys
		return ExitBelow
	}
	return ExitReached
}
