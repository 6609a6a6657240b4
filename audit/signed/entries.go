// Package signed checks who signed the contents of a journal.
//
// Entries form a chain, so one signature over the last entry of an epoch covers all of its entries. [Entries] checks
// that signature, and that every entry of the epoch has one: the claim that begins an epoch names the key of its
// driver inside the chain, so signatures cannot be stripped. Nodes check the journals that they read this way, and
// so do audits.
//
// A claim also names the last earlier entry with a signature by the same key, if its driver checked that signature.
// The key signs the entry with the claim, so the last signature of the key covers all of its epochs that are linked
// this way. No driver is trusted about another driver's key.
//
// An epoch whose claim names no key is unsigned. That is a fault only after the time from which the directory of keys
// requires signatures of drivers.
package signed

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// What is wrong with entries, besides the errors of package keys.
var (
	ErrStripped = errors.New("the signature is missing, although the claim of its driver names a key")
	ErrUnsigned = errors.New("the signature is missing, although signatures were required by then")
	ErrLate     = errors.New("it is marked as moved, but follows an entry that was written here")
	ErrNoClaim  = errors.New("it is marked as moved, but no claim of a move follows the moved entries")
	ErrOtherKey = errors.New("it is signed with a different key than the claim of its driver names")
	ErrOlder    = errors.New("its driver used an older directory of keys than an earlier driver, so the directory was rolled back")
)

// FaultError is a wrong signature of an entry, or of something that it records.
type FaultError struct {
	Seq  uint64
	Line int // in the file; 0: it was not read from a file
	Err  error
}

// Error names the entry.
func (f *FaultError) Error() string { return fmt.Sprintf("entry %d: %v", f.Seq, f.Err) }

// Unwrap returns what is wrong.
func (f *FaultError) Unwrap() error { return f.Err }

// Entries checks the signatures of one journal's entries, which are added in order. It may begin in the middle of an
// epoch. Then the key that signed the first entry must sign the rest of the epoch: a node starts from a snapshot that
// this entry confirms.
type Entries struct {
	Keys  *keys.Directory
	Every bool // check every signature, not only the last of each key

	Version  uint64 // the newest version of the directory that drivers used, since the session was moved here
	Unsigned uint64 // entries without a signature, except tombstones

	places  *places // nil: signatures are judged by dates alone
	signers tally   // of entries, by the keys that claims name
	begun   bool
	moved   uint64 // how many entries were moved here; they come first
	arrives bool   // the claim of the move must follow them
	claim   string // the id of the epoch's key; "": it names none
	signer  int    // its index in signers
	last    entry  // signed, of the epoch, not checked yet; its seq is 0 if there is none

	open    map[string]entry   // by key: the last signed entry of its last epoch before this one, not checked yet
	covered map[string][]entry // by key: entries of earlier epochs that the open signature covers
	checked map[string]uint64  // by key: the last entry whose signature was checked
}

// entry has what is needed to check the signature of an entry.
type entry struct {
	session   content.SessionID
	seq       uint64
	hash      events.Hash
	line      int
	at        content.Time // when it was written
	signature content.Signature
}

func entryOf(r *journal.Record) entry {
	return entry{r.Entry.Session, r.Seq, r.Hash, r.Line, At(*r), r.Signature}
}

// Add checks the next entry.
func (c *Entries) Add(r journal.Record) []*FaultError { return c.add(&r) }

func (c *Entries) add(r *journal.Record) (faults []*FaultError) {
	fault := func(err error) { faults = append(faults, &FaultError{r.Seq, r.Line, err}) }
	switch {
	case r.Moved && r.Seq != c.moved+1:
		fault(ErrLate)
	case r.Moved:
		c.moved, c.arrives = r.Seq, true
	case c.arrives && events.MovedFromOf(r.Entry) == nil:
		fault(ErrNoClaim)
	}
	c.arrives = r.Moved
	if _, later := errors.AsType[*events.FormatError](r.Err); later { // it may be the claim of another driver
		c.begun, c.claim = false, ""
		return append(faults, c.End()...)
	}
	if claim, ok := events.ClaimOf(r.Entry); ok {
		faults = append(faults, c.endEpoch()...)
		faults = append(faults, c.continued(claim)...)
		if claim.MovedFrom != nil { // the other deployment has another directory
			c.Version = 0
		}
		if claim.Keys > 0 && claim.Keys < c.Version { // nodes refuse that
			fault(fmt.Errorf("%w: version %d after version %d", ErrOlder, claim.Keys, c.Version))
		}
		c.begun, c.claim, c.Version = true, claim.Key, max(c.Version, claim.Keys)
		k, _ := c.Keys.Lookup(claim.Key)
		c.signer = c.signers.index("entries", k.Name, claim.Key)
	}
	if len(c.signers.all) > 0 {
		c.signers.all[c.signer].Count++
	}
	_, tombstone := events.DeletionOf(r.Entry)
	if !c.begun && !tombstone {
		c.begun, c.claim = true, r.Signature.Key
	}
	switch {
	case r.Signature.IsZero() && tombstone: // keepers have no keys
		return faults
	case r.Signature.IsZero() && c.claim != "":
		fault(ErrStripped)
	case r.Signature.IsZero() && c.Keys.Requires(keys.Driver, At(*r)):
		fault(ErrUnsigned)
	case r.Signature.IsZero():
	case c.begun && !tombstone && r.Signature.Key != c.claim:
		fault(fmt.Errorf("%w: %s, not %s", ErrOtherKey, r.Signature.Key, c.claim))
	case c.Every || tombstone:
		if err := c.check(entryOf(r)); err != nil {
			fault(err)
		}
		return faults
	default:
		c.last = entryOf(r)
		return faults
	}
	if r.Signature.IsZero() {
		c.Unsigned++
	}
	return faults
}

// maxCovered is how many signatures of a key another one may cover, so that a session of any length needs little memory.
const maxCovered = 1000

// endEpoch keeps the last signature of the epoch: a later signature of its key covers it, or it is checked at the end. A
// signature by a key that the directory does not have is a fault at once.
func (c *Entries) endEpoch() (faults []*FaultError) {
	if c.last.seq == 0 {
		return nil
	}
	if c.open == nil {
		c.open, c.covered, c.checked = map[string]entry{}, map[string][]entry{}, map[string]uint64{}
	}
	key := c.last.signature.Key
	c.open[key], c.last = c.last, entry{}
	if _, known := c.Keys.Lookup(key); !known {
		return c.settle(key)
	}
	return nil
}

// continued ends the last epoch of a claim's key before the claim. If the claim says that its driver checked the last
// signature there, the key's next one covers it, unless a thief may have made that. Otherwise it is checked here.
func (c *Entries) continued(claim events.DriverClaimed) []*FaultError {
	before, ok := c.open[claim.Key]
	k, _ := c.Keys.Lookup(claim.Key)
	switch {
	case !ok:
		return nil
	case claim.Checked != before.seq || k.Revoked != nil && k.Revoked.Stolen || len(c.covered[claim.Key]) == maxCovered:
		return c.settle(claim.Key)
	}
	delete(c.open, claim.Key)
	if err := c.checkKey(before); err != nil {
		return []*FaultError{{before.seq, before.line, err}}
	}
	c.covered[claim.Key] = append(c.covered[claim.Key], before)
	return nil
}

// settle checks the open signature of a key and, if it is wrong, the signatures that it would have covered.
func (c *Entries) settle(key string) (faults []*FaultError) {
	last := c.open[key]
	if err := c.check(last); err != nil {
		for _, r := range c.covered[key] {
			if err := c.check(r); err != nil {
				faults = append(faults, &FaultError{r.seq, r.line, err})
			}
		}
		faults = append(faults, &FaultError{last.seq, last.line, err})
	} else {
		c.checked[key] = last.seq
	}
	delete(c.open, key)
	delete(c.covered, key)
	return faults
}

// End checks the last signature of each key. Call it after the last entry; more may follow.
func (c *Entries) End() (faults []*FaultError) {
	faults = c.endEpoch()
	for key := range c.open {
		faults = append(faults, c.settle(key)...)
	}
	slices.SortFunc(faults, func(a, b *FaultError) int { return cmp.Compare(a.Seq, b.Seq) })
	return faults
}

// Arrived returns a fault if the last entry was moved here: the claim of the move must follow. Only the drivers of moved entries
// state their times, so a driver that may sign when the claim is stored must confirm them. Call it after End.
func (c *Entries) Arrived() (faults []*FaultError) {
	if c.arrives {
		return []*FaultError{{Seq: c.moved, Err: ErrNoClaim}}
	}
	return nil
}

// Checked returns the last entry whose signature by a key was checked; 0: there was none. Call it after End.
func (c *Entries) Checked(key string) uint64 { return c.checked[key] }

// check checks a signature, and its key.
func (c *Entries) check(r entry) error {
	k, err := c.Keys.Check(r.signature, statement.Entry(c.Keys.Cell, r.session, r.seq, r.hash), r.at, keys.Driver)
	return c.placed(r, k, err)
}

// checkKey checks the key of a signature that another one covers.
func (c *Entries) checkKey(r entry) error {
	k, err := c.Keys.Valid(r.signature.Key, r.at, keys.Driver)
	return c.placed(r, k, err)
}

// placed also judges a signature by its place in the log of heads, if that is known.
func (c *Entries) placed(r entry, k keys.Key, err error) error {
	if c.places != nil {
		err = c.places.check(r, k, err)
	}
	if err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	return nil
}

// At returns when an entry was written, by the store's clock or, if there is none, by the driver's.
func At(r journal.Record) content.Time {
	if !r.Stored.IsZero() {
		return content.TimeOf(r.Stored)
	}
	return r.Entry.At
}
