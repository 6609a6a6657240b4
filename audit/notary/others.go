package notary

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// ErrFalseLeaf is returned by Run if the log has a leaf that the journal of its session contradicts. A process that may write
// the state of the log put it there. Do not sign it; proceed as after ErrRewritten.
var ErrFalseLeaf = errors.New("the log of heads has a leaf that the journal contradicts")

// errAhead is a leaf that no journal has yet. Nothing is signed until one has it.
var errAhead = errors.New("the log has a leaf whose entry no journal has")

// confirm compares a leaf that another process logged with the journal: only existing entries may be signed. For a
// deleted session, only its tombstone is left to compare.
func (n *Notary) confirm(ctx context.Context, l headlog.Leaf) error {
	if l.Cell != n.cell.Namespace() {
		return fmt.Errorf("%w: it belongs to cell %s", ErrFalseLeaf, l.Cell)
	}
	rec, err := n.cell.Journal().Last(ctx, l.Session)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return fmt.Errorf("compare the log with the journals: %w", err)
	}
	if rec.Seq < l.Seq {
		return fmt.Errorf("%w: entry %d of %s", errAhead, l.Seq, l.Session)
	}
	if _, deleted := events.DeletionOf(rec.Entry); deleted && l.Seq < rec.Seq {
		return nil
	}
	if l.Seq < rec.Seq {
		for rec, err = range n.cell.Journal().Read(ctx, l.Session, l.Seq-1) {
			break
		}
	}
	from := events.MovedFromOf(rec.Entry)
	switch {
	case err != nil:
		return fmt.Errorf("compare the log with the journals: %w", err)
	case from != nil && rec.Seq == l.Seq && from.Tombstone == l.Hash && from.Proves(rec.Entry): // the session left, and came back
		return nil
	case rec.Seq != l.Seq || rec.Hash != l.Hash:
		return fmt.Errorf("%w: entry %d of %s has the hash %s, and the leaf %s", ErrFalseLeaf, l.Seq, l.Session, rec.Hash, l.Hash)
	}
	return nil
}
