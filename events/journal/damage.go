package journal

import (
	"fmt"

	"github.com/turnlog/turnlog/events"
)

// damage is a kind of ErrDamaged.
type damage string

// Error returns the text of ErrDamaged: what follows it says the rest.
func (damage) Error() string { return ErrDamaged.Error() }

// Unwrap returns ErrDamaged.
func (damage) Unwrap() error { return ErrDamaged }

// What is damaged, for audits. Each is ErrDamaged too. An error that is none of them says that what is stored was changed.
const (
	ErrMissing    = damage("missing")    // an entry or its payload is not there
	ErrReplaced   = damage("replaced")   // another entry was before
	ErrForeign    = damage("foreign")    // an entry is of another session
	ErrForged     = damage("forged")     // an entry follows the tombstone
	ErrUnreadable = damage("unreadable") // the bytes of an entry are none

	// ErrArriving is no damage: the session is being moved here. Read again when that is done.
	ErrArriving = damage("arriving")
)

// Follows returns ErrDamaged if an entry does not follow the head of its session. A tombstone may follow later: what is
// missing was deleted.
func Follows(head Head, e events.Entry) error {
	_, deletes := events.DeletionOf(e)
	switch next := head.Seq + 1; {
	case deletes && e.Seq > next:
		return nil
	case e.Seq > next:
		return fmt.Errorf("%w: %s: entry %d follows %d", ErrMissing, e.Session, e.Seq, head.Seq)
	case e.Seq < next:
		return fmt.Errorf("%w: %s: entry %d follows %d", ErrDamaged, e.Session, e.Seq, head.Seq)
	case e.Prev != head.Hash:
		return fmt.Errorf("%w: %s: entry %d names %s before it, but that entry's hash is %s", ErrReplaced, e.Session, e.Seq, e.Prev, head.Hash)
	}
	return nil
}
