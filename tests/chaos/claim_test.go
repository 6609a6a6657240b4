package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/cell"
)

// owned is an operation of a driver: it claims a session with an epoch, or writes under
// an epoch that it claimed.
type owned struct {
	claim bool
	epoch uint64
	cause string
}

// owner is the driver of a session.
type owner struct {
	epoch uint64
	cause string // of its claim
}

// stepClaim models ownership: a claim takes the session over with the next epoch, and
// from then on only its owner writes. A write names its claim.
func stepClaim(state, in any, out answer) (bool, any) {
	has, o := state.(owner), in.(owned) //nolint:forcetypeassert // the test's own
	if !o.claim {
		return out.result != done || has == owner{o.epoch, o.cause}, has
	}
	switch {
	case out.result == done:
		return has.epoch == o.epoch-1, owner{o.epoch, o.cause}
	case out.result == unknown && has.epoch == o.epoch-1:
		return true, owner{o.epoch, o.cause}
	}
	return true, has
}

// claimUntil takes one of four sessions over as drivers do, as node i of eight: read the end, claim with the next
// epoch, write until another node has claimed. They continue until ctx ends and the history is long enough. Run
// tokens are not used: two nodes may hold the same token, and then the claim decides.
func (h *history) claimUntil(ctx context.Context, i int, p *cell.Process) {
	s := content.SessionID(fmt.Sprint("claim-", i%4))
	j := p.Cell.Journal()
	for n := 1; h.goesOn(ctx); n++ {
		<-time.After(time.Duration(20+10*i) * time.Millisecond)
		if n%4 == i%4 {
			deafen(p)
		}
		h.drives(i, n, j, s)
	}
}

// drives claims a session and writes a few entries, until an append fails.
func (h *history) drives(i, n int, j journal.Journal, s content.SessionID) {
	ctx, cancel := context.WithTimeout(h.t.Context(), 3*time.Second)
	defer cancel()
	last, err := j.Last(ctx, s)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return
	}
	head, epoch, cause := last.Head, last.Entry.Epoch+1, fmt.Sprintf("n%d-%d", i, n)
	for k := range 12 {
		result := h.record(i, string(s), owned{k == 0, epoch, cause}, func() (any, outcome) {
			ctx, cancel := context.WithTimeout(h.t.Context(), 3*time.Second)
			defer cancel()
			next, err := j.Append(ctx, head, entry(s, fmt.Sprintf("%s-%d", cause, k), epoch))
			switch {
			case err == nil:
				head = next
				return nil, done
			case errors.Is(err, journal.ErrUnknown):
				return nil, unknown
			}
			return nil, refused
		})
		if result != done {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}
