// Package signed checks who signed what a journal records.
//
// The one idea: entries form a chain, so one signature over the last entry of an epoch covers all of its
// entries and all epochs before. [Entries] checks that signature, and that no entry of the epoch lacks
// one: the claim that begins an epoch names the key of its driver inside the chain, so signatures cannot be
// stripped. Nodes check the journals that they read this way, and audits those that they verify.
//
// An epoch whose claim names no key is unsigned. That is a fault only from the time on from which the
// directory of keys requires signatures of drivers.
package signed

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// What is wrong with entries, besides the errors of package keys.
var (
	ErrStripped = errors.New("it is not signed, although the claim of its driver names a key")
	ErrUnsigned = errors.New("it is not signed, and signatures are required since then")
	ErrOtherKey = errors.New("it is signed by another key than the claim of its driver names")
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

// Entries checks the signatures of one journal's entries, which are added in order. It may begin in the
// middle of an epoch. Then the first entry says whose key the others of the epoch need: a node starts from a snapshot
// that this entry confirms.
type Entries struct {
	Keys  *keys.Directory
	Every bool // check every signature, not only the last of each epoch

	Version  uint64 // of the directory by which the drivers went, at most
	Unsigned uint64 // entries without a signature, but tombstones

	places  *places // nil: signatures are judged by dates alone
	signers tally   // of entries, by the keys that claims name
	begun   bool
	claim   string         // the id of the epoch's key; "": it names none
	signer  int            // its index in signers
	last    journal.Record // signed, of the epoch, not checked yet; its Seq is 0 if there is none
}

// Add checks the next entry.
func (c *Entries) Add(r journal.Record) (faults []*FaultError) {
	fault := func(err error) { faults = append(faults, &FaultError{r.Seq, r.Line, err}) }
	if _, later := errors.AsType[*events.FormatError](r.Err); later { // it may be the claim of another driver
		c.begun, c.claim = false, ""
		return c.End()
	}
	if claim, ok := claimOf(r.Entry); ok {
		faults = c.End()
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
	case r.Signature.IsZero() && c.Keys.Requires(keys.Driver, At(r)):
		fault(ErrUnsigned)
	case r.Signature.IsZero():
	case c.begun && !tombstone && r.Signature.Key != c.claim:
		fault(fmt.Errorf("%w: %s, not %s", ErrOtherKey, r.Signature.Key, c.claim))
	case c.Every || tombstone:
		if err := c.check(r); err != nil {
			fault(err)
		}
		return faults
	default:
		c.last = r
		return faults
	}
	if r.Signature.IsZero() {
		c.Unsigned++
	}
	return faults
}

// End checks the last signature of the epoch. Call it after the last entry; more may follow.
func (c *Entries) End() (faults []*FaultError) {
	if c.last.Seq > 0 {
		if err := c.check(c.last); err != nil {
			faults = []*FaultError{{c.last.Seq, c.last.Line, err}}
		}
		c.last = journal.Record{}
	}
	return faults
}

func (c *Entries) check(r journal.Record) error {
	text := statement.Entry(c.Keys.Cell, r.Entry.Session, r.Seq, r.Hash)
	k, err := c.Keys.Check(r.Signature, text, At(r), keys.Driver)
	if c.places != nil {
		err = c.places.check(r, k, err)
	}
	if err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	return nil
}

// At returns when an entry was written: by the store's clock, if there is one, else by the driver's.
func At(r journal.Record) content.Time {
	if !r.Stored.IsZero() {
		return content.TimeOf(r.Stored)
	}
	return r.Entry.At
}

func claimOf(e events.Entry) (events.DriverClaimed, bool) {
	if len(e.Events) == 0 {
		return events.DriverClaimed{}, false
	}
	c, ok := e.Events[0].(events.DriverClaimed)
	return c, ok
}
