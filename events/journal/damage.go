package journal

import (
	"fmt"

	"github.com/turnlog/turnlog/events"
)

// damage is a kind of ErrDamaged.
type damage string

// Error returns the text of ErrDamaged. The text that follows it says what is damaged.
func (damage) Error() string { return ErrDamaged.Error() }

// Unwrap returns ErrDamaged.
func (damage) Unwrap() error { return ErrDamaged }

// Kinds of damage, for audits. Each matches ErrDamaged too. An ErrDamaged of no such kind means that stored data was changed.
const (
	ErrMissing    = damage("missing")    // an entry or its payload does not exist
	ErrReplaced   = damage("replaced")   // a different entry came before
	ErrForeign    = damage("foreign")    // an entry belongs to another session
	ErrForged     = damage("forged")     // an entry follows the tombstone
	ErrUnreadable = damage("unreadable") // the stored bytes are not an entry

	// ErrArriving is not damage: the session is being moved here. Read again when the move is done.
	ErrArriving = damage("arriving")
)

// Follows returns ErrDamaged if an entry does not follow the head of its session. A tombstone may leave a gap: the
// missing entries were deleted.
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
