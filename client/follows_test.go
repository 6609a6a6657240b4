package client_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// book is the journal of a session that no node drives.
type book struct {
	w     *world
	heads []journal.Head // of its entries, after the place before them
}

func (b *book) write(n int) {
	b.w.T.Helper()
	for range n {
		last := b.heads[len(b.heads)-1]
		ev := []events.Event{events.Warning{Code: "x"}}
		if last.Seq == 0 {
			ev = []events.Event{events.DriverClaimed{Epoch: 1}, events.RunStarted{Config: events.Config{Model: "m"}}}
		}
		e := events.Entry{Session: "s", Cause: "c" + strconv.FormatUint(last.Seq, 10), At: content.TimeOf(time.Now()), Epoch: 1, Events: ev}
		head, err := b.w.Cell.Journal().Append(b.w.Ctx, last, e)
		if err != nil {
			b.w.T.Fatal(err)
		}
		b.heads = append(b.heads, head)
	}
}

// follower follows a session.
type follower struct {
	t     *testing.T
	gate  chan struct{} // closed: it accepts updates
	came  chan client.Update
	next  uint64 // the next expected entry
	lived int    // live events
	stop  context.CancelFunc
	ended chan struct{}
}

func follow(t *testing.T, w *world, f *client.Follows, from journal.Head) *follower {
	t.Helper()
	r := &follower{t: t, gate: make(chan struct{}), came: make(chan client.Update, 4096), next: from.Seq + 1, ended: make(chan struct{})}
	ctx, stop := context.WithCancel(w.Ctx)
	r.stop = stop
	go func() {
		defer close(r.ended)
		for u, err := range f.FollowFrom(ctx, "s", from) {
			if err != nil {
				t.Errorf("follow: %v", err)
			}
			<-r.gate
			r.came <- u
		}
	}()
	return r
}

// await waits until all entries before one have arrived, and a number of live events.
func (r *follower) await(next uint64, lived int) {
	r.t.Helper()
	for r.next < next || r.lived < lived {
		switch u := <-r.came; {
		case u.Record == nil:
			r.lived++
		case u.Record.Seq != r.next:
			r.t.Fatalf("entry %d, want %d", u.Record.Seq, r.next)
		default:
			r.next++
		}
	}
}

// end ends it, and checks that nothing more has arrived.
func (r *follower) end() {
	r.t.Helper()
	r.stop()
	<-r.ended
	if len(r.came) > 0 {
		r.t.Errorf("%d updates too many", len(r.came))
	}
}

func TestReadersOfASessionGetEachEntryOnceAtTheCostOfOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nc := w.Connect()
		c, err := client.Open(nc, "")
		if err != nil {
			t.Fatal(err)
		}
		f := client.NewFollows(c)
		b := &book{w: w, heads: []journal.Head{{}}}
		b.write(20)
		if _, _, err := c.Read(w.Ctx, "s"); err != nil { // the first request subscribes to answers
			t.Fatal(err)
		}
		idle := nc.NumSubscriptions()
		var all []*follower
		for i := range 10 {
			all = append(all, follow(t, w, f, b.heads[2*i]))
			close(all[i].gate)
			b.write(3) // while it begins
		}
		for _, r := range all {
			r.await(uint64(len(b.heads)), 0)
		}
		synctest.Wait()
		if n := nc.NumSubscriptions() - idle; n != 2 {
			t.Errorf("%d subscriptions for ten readers", n)
		}
		all[0].end() // the one that began
		if err := w.Cell.Live().Publish("s", events.Refused{Command: "c", Reason: "busy"}); err != nil {
			t.Fatal(err)
		}
		b.write(20)
		for _, r := range all[1:] {
			r.await(uint64(len(b.heads)), 1)
			r.end()
		}
		synctest.Wait()
		if n := nc.NumSubscriptions() - idle; n != 0 {
			t.Errorf("%d subscriptions without readers", n)
		}
	})
}

func TestASlowReaderMissesNoEntryAndHoldsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f := client.NewFollows(w.Client)
		b := &book{w: w, heads: []journal.Head{{}}}
		b.write(2)
		slow, fast := follow(t, w, f, b.heads[2]), follow(t, w, f, b.heads[2])
		close(fast.gate)
		b.write(1500)
		fast.await(uint64(len(b.heads)), 0)
		close(slow.gate)
		slow.await(uint64(len(b.heads)), 0)
		b.write(1)
		for _, r := range []*follower{slow, fast} {
			r.await(uint64(len(b.heads)), 0)
			r.end()
		}
	})
}
