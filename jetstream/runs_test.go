package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
)

func wake(t testing.TB, r *Runs, s content.SessionID) {
	t.Helper()
	must(t, r.Wake(t.Context(), s))
}

// take waits up to d for a token.
func take(t testing.TB, r *Runs, patience time.Duration) *Token {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	token, err := r.Take(ctx)
	if err != nil {
		t.Fatalf("Take = %v, want a token", err)
	}
	return token
}

func takeNothing(t testing.TB, r *Runs, patience time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if token, err := r.Take(ctx); err == nil {
		t.Fatalf("Take gave the token of %s, want none", token.Session())
	}
}

func TestWakeOfASessionWithATokenSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newCell(t).Runs()
		wake(t, r, "s1")
		wake(t, r, "s1") // waiting
		token := take(t, r, time.Second)
		if token.Session() != "s1" {
			t.Fatalf("token of %s, want s1", token.Session())
		}
		wake(t, r, "s1") // held
		takeNothing(t, r, time.Second)
		must(t, token.Release())
		wake(t, r, "s1") // released
		take(t, r, time.Second)
		takeNothing(t, r, time.Second)
	})
}

// TestTokensWithoutASessionAreRemoved sends the tokens that a user may send whose permission is to wake
// any session: "*" would stand for all of them.
func TestTokensWithoutASessionAreRemoved(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		for _, subject := range []string{"turnlog.run.*", "turnlog.run.\x1b", "turnlog.run.é"} {
			must(t, c.nc.Publish(subject, nil))
		}
		r := c.Runs()
		wake(t, r, "s1")
		if token := take(t, r, time.Second); token.Session() != "s1" {
			t.Errorf("token of %q, want s1", token.Session())
		}
		<-time.After(time.Minute)
		if left, err := c.api.Subjects(t.Context(), c.names.RunStream(), ">"); err != nil || len(left) != 1 {
			t.Errorf("left in RUN: %v, %v", left, err)
		}
	})
}

func TestUnrenewedTokenReturnsAfterAckWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newCell(t).Runs()
		wake(t, r, "s1")
		dead := take(t, r, time.Second)
		takeNothing(t, r, dead.AckWait()-time.Second)
		if token := take(t, r, 2*time.Second); token.Session() != "s1" {
			t.Errorf("token of %s, want s1", token.Session())
		}
	})
}

func TestRenewedTokenIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newCell(t).Runs()
		wake(t, r, "s1")
		token := take(t, r, time.Second)
		for range 30 {
			takeNothing(t, r, token.AckWait()/3)
			must(t, token.Extend())
		}
	})
}

func TestDoneAllowsTheNextWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newCell(t).Runs()
		wake(t, r, "s1")
		token := take(t, r, time.Second)
		must(t, token.Done(t.Context()))
		must(t, token.WaitGone(within(t, time.Second)))
		takeNothing(t, r, time.Minute)
		wake(t, r, "s1")
		must(t, token.WaitGone(within(t, time.Second))) // another token is not this one
		if again := take(t, r, time.Second); again.Session() != "s1" {
			t.Errorf("token of %s, want s1", again.Session())
		}
	})
}

func TestWaitGoneWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newCell(t).Runs()
		wake(t, r, "s1")
		token := take(t, r, time.Second)
		if err := token.WaitGone(within(t, time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("WaitGone of a token that is held = %v, want to wait for as long as it may", err)
		}
		gone := make(chan error)
		go func() { gone <- token.WaitGone(t.Context()) }()
		<-time.After(time.Second)
		must(t, token.Done(t.Context()))
		must(t, <-gone)
	})
}

func TestHeldDetectsALostToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newCell(t).Runs()
		wake(t, r, "s1")
		token := take(t, r, time.Second)
		held, err := token.Held(t.Context())
		if !held || err != nil {
			t.Fatalf("Held = %v, %v, want true", held, err)
		}
		must(t, token.Done(t.Context()))
		if held, err = token.Held(t.Context()); held || err != nil {
			t.Fatalf("Held of a token that is gone = %v, %v, want false", held, err)
		}
		take(t, r, time.Second) // the probe woke the session for its next driver
	})
}

func TestTokenIsHandedOverAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		from := provision(t, connect(t, s)).Runs()
		to := openCell(t, connect(t, s)).Runs()
		wake(t, from, "s1")
		token := take(t, from, time.Second)
		start := time.Now()
		must(t, token.Release())
		take(t, to, time.Second)
		if waited := time.Since(start); waited > 100*time.Millisecond {
			t.Errorf("a released token arrived after %v", waited)
		}
	})
}

func TestNakForADeadHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		dead := provision(t, connect(t, s)).Runs()
		peer := openCell(t, connect(t, s)).Runs()
		wake(t, dead, "s1")
		reply := take(t, dead, time.Second).Reply()
		start := time.Now()
		must(t, peer.NakFor(reply))
		take(t, peer, time.Second)
		if waited := time.Since(start); waited > 100*time.Millisecond {
			t.Errorf("the token of a dead holder arrived after %v", waited)
		}
		for _, bad := range []string{"", "turnlog.journal.s1", "$JS.ACK.OTHER.drivers.1.1.1.1.1", "$JS.API.STREAM.DELETE.TURNLOG_RUN.drivers.x"} {
			if err := peer.NakFor(bad); err == nil || !strings.Contains(err.Error(), "not the reply subject") {
				t.Errorf("NakFor of %q = %v", bad, err)
			}
		}
	})
}

func TestTakeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		draining := provision(t, connect(t, s)).Runs()
		staying := openCell(t, connect(t, s)).Runs()
		why := errors.New("drained")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		for range 3 {
			go func() {
				_, err := draining.Take(ctx)
				ended <- err
			}()
		}
		<-time.After(time.Minute)
		cancel(why)
		for range 3 {
			if err := <-ended; !errors.Is(err, why) {
				t.Errorf("Take = %v, want the cause of its context's end", err)
			}
		}
		wake(t, staying, "s1") // requests of canceled takers are still pending on the server
		take(t, staying, 100*time.Millisecond)
	})
}

func TestManyTakersShareTheTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		runs := []*Runs{provision(t, connect(t, s)).Runs(), openCell(t, connect(t, s)).Runs()}
		const n = 64
		got := make(chan content.SessionID)
		for i := range n {
			go func() {
				token, err := runs[i%2].Take(t.Context())
				if err != nil {
					t.Errorf("Take = %v", err)
					return
				}
				got <- token.Session()
			}()
		}
		<-time.After(time.Minute) // requests expire and are replaced
		for i := range n {
			runs[0].WakeSoon(content.SessionID(fmt.Sprint("s", i)))
		}
		seen := make(map[content.SessionID]bool)
		start := time.Now()
		for range n {
			seen[<-got] = true
		}
		if len(seen) != n || time.Since(start) > time.Second {
			t.Errorf("%d takers got %d different tokens in %v", n, len(seen), time.Since(start))
		}
	})
}

func TestTakeContinuesAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		waker := provision(t, connect(t, s)).Runs()
		nc := connect(t, s)
		r := openCell(t, nc).Runs()
		got := make(chan *Token)
		go func() {
			token, err := r.Take(t.Context())
			if err != nil {
				t.Errorf("Take = %v", err)
			}
			got <- token
		}()
		synctest.Wait()
		reconnect(t, nc)
		<-time.After(time.Second)
		start := time.Now()
		wake(t, waker, "s1")
		<-got
		if waited := time.Since(start); waited > 100*time.Millisecond {
			t.Errorf("the token arrived after %v", waited)
		}
	})
}

func TestTakeFromAMissingCellIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openCell(t, connect(t, startServer(t)))
		if _, err := c.Runs().Take(t.Context()); !errors.Is(err, ErrNotProvisioned) {
			t.Errorf("Take = %v, want ErrNotProvisioned", err)
		}
		if err := c.Runs().Wake(t.Context(), "s1"); !errors.Is(err, ErrNotProvisioned) {
			t.Errorf("Wake = %v, want ErrNotProvisioned", err)
		}
	})
}

func TestTakeWaitsForTheCell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openCell(t, connect(t, startServer(t)))
		r := c.Runs()
		got := make(chan error)
		go func() {
			_, err := r.Take(t.Context())
			got <- err
		}()
		<-time.After(10 * time.Second)
		create(t, c, jetstream.MemoryStorage, 1)
		<-time.After(time.Minute)
		wake(t, r, "s1")
		must(t, <-got)
	})
}

func TestTakeEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		provision(t, connect(t, s))
		nc := connect(t, s)
		r := openCell(t, nc).Runs()
		ended := make(chan error)
		for range 2 {
			go func() {
				_, err := r.Take(t.Context())
				ended <- err
			}()
		}
		synctest.Wait()
		nc.Close()
		for range 2 {
			if err := <-ended; !errors.Is(err, nats.ErrConnectionClosed) {
				t.Errorf("Take = %v, want that the connection is closed", err)
			}
		}
		if _, err := r.Take(t.Context()); !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("Take later = %v, want that the connection is closed", err)
		}
	})
}

func TestTokenWithoutAConnectionIsNotRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		provision(t, connect(t, s))
		nc := connect(t, s)
		r := openCell(t, nc).Runs()
		wake(t, r, "s1")
		token := take(t, r, time.Second)
		nc.Close()
		<-time.After(token.AckWait() / 2)
		if err := token.Extend(); err == nil {
			t.Error("Extend without a connection succeeded")
		}
	})
}

// A holder may ask for any lease, whatever its consumer says. A usual renewal makes it short again, and another node
// can return the token at any time.
func TestALeaseMayBeLong(t *testing.T) {
	t.Parallel()
	for what, then := range map[string]struct {
		do    func(*Runs, *Token) error
		after time.Duration
	}{
		"nothing":         {func(*Runs, *Token) error { return nil }, LongLease},
		"another one":     {func(_ *Runs, t *Token) error { return t.ExtendFor(LongLease) }, LongLease},
		"a usual renewal": {func(_ *Runs, t *Token) error { return t.Extend() }, 12 * time.Second},
		"its return":      {func(r *Runs, t *Token) error { return r.NakFor(t.Reply()) }, 0},
	} {
		inBubble(t, func(t *testing.T, c *Cell) {
			r := c.Runs()
			wake(t, r, "s1")
			token := take(t, r, time.Second)
			must(t, token.ExtendFor(LongLease))
			if what != "nothing" {
				takeNothing(t, r, 30*time.Second)
			}
			must(t, then.do(r, token))
			if then.after > 0 {
				takeNothing(t, r, then.after-time.Second)
			}
			take(t, r, 2*time.Second)
		})
	}
}

func TestALongLeaseOutlivesItsServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, embedded.WithStore(dir))
		c := openCell(t, connect(t, s))
		create(t, c, jetstream.FileStorage, 1)
		wake(t, c.Runs(), "s1")
		must(t, take(t, c.Runs(), time.Second).ExtendFor(LongLease))
		<-time.After(time.Second)
		s.Close()
		again := openCell(t, connect(t, startServer(t, embedded.WithStore(dir)))).Runs()
		takeNothing(t, again, LongLease-5*time.Second)
		take(t, again, 10*time.Second)
	})
}
