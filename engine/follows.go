package engine

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// ErrUnclaimed is returned by readers, with journal.ErrDamaged, for an entry that its writer cannot have
// written: no host claimed the session in its epoch, or that host had given it up or been followed by another one.
// Do not act on it. `observer verify` says more.
var ErrUnclaimed = errors.New("its writer does not hold the session")

// follows returns an error if the next entry was not written by the host that holds the session, as far as a
// reader without keys can know. parked says that the last entry parks the session.
func follows(s *loop.State, parked bool, e events.Entry) error {
	unclaimed := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s, entry %d: %w: %s", journal.ErrForged, s.Session, e.Seq, ErrUnclaimed, fmt.Sprintf(format, args...))
	}
	if _, deletes := events.DeletionOf(e); deletes { // its writer claims nothing
		return nil
	}
	epoch, claimed := s.Epoch, false
	for i, ev := range e.Events {
		claim, ok := ev.(events.DriverClaimed)
		switch {
		case ok && i > 0:
			return unclaimed("a claim is not its first event")
		case ok && claim.Epoch <= s.Epoch:
			return unclaimed("it claims epoch %d after epoch %d", claim.Epoch, s.Epoch)
		case ok:
			epoch, claimed = claim.Epoch, true
		}
	}
	switch {
	case epoch == 0:
		return unclaimed("no host has claimed the session")
	case e.Epoch != epoch:
		return unclaimed("it is of epoch %d, and epoch %d holds the session", e.Epoch, epoch)
	case parked && !claimed && !onlyParks(e): // a node that drains may park it once more
		return unclaimed("the host of epoch %d had parked the session", epoch)
	}
	return nil
}

func onlyParks(e events.Entry) bool { return len(e.Events) == 1 && Parks(e) }
