package engine

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// ErrUnclaimed is returned by readers, with journal.ErrDamaged, for an entry whose writer did not hold the
// session: no host claimed it in that epoch, that host had parked it, or another host had claimed it since. Do
// not act on such an entry. `observer verify` says more.
var ErrUnclaimed = errors.New("the writer does not own the session")

// follows returns an error if the host that holds the session did not write the next entry, as far as a reader
// without keys can tell. parked says that the last entry parks the session.
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
