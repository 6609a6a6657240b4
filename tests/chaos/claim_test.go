package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
)

// owned is an operation of somebody who drives a session, or wants to: to claim it with
// an epoch, or to write under one that was claimed.
type owned struct {
	claim bool
	epoch uint64
	cause string
}

// owner is who drives a session.
type owner struct {
	epoch uint64
	cause string // of its claim
}

// stepClaim is the right to drive: a claim takes it from whoever has it, with the next
// epoch, and from then on nobody writes who has it not. Who writes names its claim.
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

// TestWhoWasReplacedWritesNothing has nodes claim sessions from one another as drivers
// do: read the end, claim with the next epoch, write until somebody else has claimed. A
// run token is no part of it: it may be held by two, which the claim then decides.
func TestWhoWasReplacedWritesNothing(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	const sessions, nodes = 4, 8
	a.under(7*time.Second, []string{"TURNLOG_JOURNAL"}, nodes, func(ctx context.Context, i int, nc *nats.Conn) {
		s := content.SessionID(fmt.Sprint("s", i%sessions))
		j := a.open(nc).Journal()
		for n := 1; ctx.Err() == nil; n++ {
			<-time.After(time.Duration(20+10*i) * time.Millisecond)
			a.drives(i, n, j, s) //nolint:contextcheck // what was begun is brought to its end
		}
	})
	a.linearizable(t, stepClaim, owner{})
}

// drives claims a session and writes a few entries, until one is not taken.
func (a *arena) drives(i, n int, j journal.Journal, s content.SessionID) {
	ctx, cancel := context.WithTimeout(a.Ctx, 3*time.Second)
	defer cancel()
	last, err := j.Last(ctx, s)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return
	}
	head, epoch, cause := last.Head, last.Entry.Epoch+1, fmt.Sprintf("n%d-%d", i, n)
	for k := range 12 {
		result := a.record(i, string(s), owned{k == 0, epoch, cause}, func() (any, outcome) {
			ctx, cancel := context.WithTimeout(a.Ctx, 3*time.Second)
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
