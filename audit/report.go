package audit

import (
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Violation is one broken promise: which one, in which entry, and how.
type Violation struct {
	Invariant string `json:"invariant"`
	Seq       uint64 `json:"seq"`
	Message   string `json:"message"`
}

// String renders the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("entry %d: %s: %s", v.Seq, v.Invariant, v.Message)
}

// Report is what became of judging a journal.
type Report struct {
	Session content.SessionID `json:"session"`
	Entries int               `json:"entries"`
	Events  int               `json:"events"`
	Turns   int               `json:"turns"` // started

	// Where the journal ends. A journal whose end was cut off is whole in itself:
	// compare the head with one that was kept elsewhere.
	Seq  uint64      `json:"seq"`
	Hash events.Hash `json:"hash"`

	// Deleted is what the tombstone says of a session that was deleted; nil: it was not.
	// Then entries may be missing before it, one after the other from the first on.
	Deleted *events.Deletion `json:"deleted,omitempty"`

	Violations []Violation `json:"violations"`         // in the order in which they were found
	Warnings   []Violation `json:"warnings,omitempty"` // odd, but no broken promise

	// UnjudgedFrom is the first entry that only the chain was checked of, because
	// what it or one before it says cannot be known; zero: everything was judged.
	UnjudgedFrom uint64 `json:"unjudged_from,omitempty"`
}

// OK reports whether every promise was kept.
func (r Report) OK() bool { return len(r.Violations) == 0 }

// First returns what was found first, and whether anything was.
func (r Report) First() (Violation, bool) {
	if r.OK() {
		return Violation{}, false
	}
	return r.Violations[0], true
}
