package jetstream

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
)

func TestOrphansHaveCommandsAndNoToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		r := c.Runs()
		sweep := r.Sweep()
		want := func(want ...content.SessionID) {
			t.Helper()
			got, _, err := sweep.Look(t.Context())
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("orphans (-want +got):\n%s", diff)
			}
		}
		want()
		for _, s := range []content.SessionID{"asked", "woken", "held", "reported"} {
			send(t, c, lostReport(s, "r1"), submit(s, "a1", ""))
		}
		wake(t, r, "held")
		token := take(t, r, time.Second)
		wake(t, r, "woken")
		wake(t, r, "nothing-to-do")
		must(t, c.Timers().Arm(t.Context(), "timed", "t", time.Now().Add(time.Minute), fired("timed", "t")))
		want("asked", "reported")
		<-time.After(time.Minute + time.Second)
		want("asked", "reported", "timed")

		must(t, token.Done(t.Context())) // without purging: a driver that died while it parked
		must(t, token.WaitGone(within(t, time.Second)))
		want("asked", "held", "reported", "timed")
		for _, s := range []content.SessionID{"asked", "held", "reported", "timed"} {
			wake(t, r, s)
		}
		want()
		left := c.Inbox().Reader("asked", nil)
		for m, err := range left.Read(t.Context(), 0) {
			must(t, err)
			left.Take(m)
		}
		must(t, left.Purge(t.Context(), false))
		want()
	})
}

// A list of very many sessions would keep the server busy.
func TestSessionsThatAreTooManyAreNotListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		r := c.Runs()
		r.most = 20
		for i := range 21 {
			s := content.SessionID(fmt.Sprint("s", i))
			send(t, c, submit(s, "a1", ""))
			wake(t, r, s)
		}
		if _, err := r.Senders(t.Context()); !errors.Is(err, ErrTooMany) {
			t.Errorf("Senders = %v", err)
		}
		got, err := r.Senders(t.Context(), "s7", "none")
		must(t, err)
		if diff := cmp.Diff(map[content.SessionID][]string{"s7": {""}}, got); diff != "" {
			t.Errorf("senders (-want +got):\n%s", diff)
		}
		some, _, err := r.Sweep().Look(t.Context())
		must(t, err)
		if len(some) < 10 || len(some) > 21 { // of 300 random ones
			t.Errorf("orphans = %v", some)
		}
		if _, err := r.Taken(t.Context(), nil); err != nil {
			t.Errorf("Taken = %v", err)
		}
	})
}

// A node sweeps all the time, so a look at streams that have not changed must be cheap.
func TestASweepListsOnlyStreamsThatChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		sweep := c.Runs().Sweep()
		asked := func() uint64 {
			t.Helper()
			before := c.Conn().Stats().OutMsgs
			orphans, _, err := sweep.Look(t.Context())
			must(t, err)
			if diff := cmp.Diff([]content.SessionID{"s"}, orphans); diff != "" {
				t.Errorf("orphans (-want +got):\n%s", diff)
			}
			return c.Conn().Stats().OutMsgs - before
		}
		send(t, c, submit("s", "a1", ""))
		for i, want := range []uint64{6, 5, 5} { // the ends of five streams, and a list
			if n := asked(); n != want {
				t.Errorf("look %d asked %d times, want %d", i+1, n, want)
			}
		}
		send(t, c, submit("s", "a2", ""))
		if n := asked(); n != 6 {
			t.Errorf("a look after a command asked %d times", n)
		}
	})
}

func TestOrphansOfAMissingCellAreAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openCell(t, connect(t, startServer(t)))
		if _, _, err := c.Runs().Sweep().Look(t.Context()); !errors.Is(err, ErrNotProvisioned) {
			t.Errorf("Look = %v, want ErrNotProvisioned", err)
		}
	})
}
