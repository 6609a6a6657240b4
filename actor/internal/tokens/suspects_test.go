package tokens

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
)

func token(s content.SessionID, delivery string) jetstream.HeldToken {
	return jetstream.HeldToken{Session: s, Reply: "$JS.ACK.TURNLOG_RUN.drivers.1.7." + delivery + ".1.0"}
}

// rounds returns the rounds in which a token is returned, one a second, while no other node takes it.
func rounds(s Suspects, count int, has func(content.SessionID) uint64) (out []int) {
	for n := range count {
		if len(s.Due(has)) > 0 {
			out = append(out, n)
		}
		<-time.After(time.Second)
	}
	return out
}

func noNodeHas(content.SessionID) uint64 { return 0 }

// A return may be lost with the server that received it, and the lease is long. So it is repeated until the lease is over.
func TestTheTokensOfTheDeadAreReturnedMoreThanOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := make(Suspects)
		s.Dead([]jetstream.HeldToken{token("s", "9")})
		if got := rounds(s, 200, noNodeHas); !slices.Equal(got, []int{0, 1, 2, 6, 14, 30, 62}) {
			t.Errorf("returned in rounds %v", got)
		}
		if len(s) > 0 {
			t.Error("a token is suspect for longer than its lease")
		}
	})
}

// Another node may have just taken a token that its driver released. A token that is to return later is not returned
// earlier.
func TestATokenThatWasLeftIsNotReturnedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for after, want := range map[time.Duration][]int{0: {1, 2, 3, 7}, 3 * time.Second: {4, 5, 6, 10}, time.Hour: nil} {
			s := make(Suspects)
			s.Left([]Left{{token("s", "9"), time.Now().Add(after)}})
			if got := rounds(s, 12, noNodeHas); !slices.Equal(got, want) {
				t.Errorf("to return after %v: returned in rounds %v, want %v", after, got, want)
			}
		}
	})
}

// A node that lost the session still names it for a while. Only the node that got the token later drives it.
func TestATokenThatAnotherNodeHasIsNotReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for holds, want := range map[uint64]int{8: 1, 9: 0, 10: 0} {
			s := make(Suspects)
			s.Dead([]jetstream.HeldToken{token("s", "9")})
			if got := s.Due(func(content.SessionID) uint64 { return holds }); len(got) != want {
				t.Errorf("returned %v, and a node has delivery %d", got, holds)
			}
		}
	})
}
