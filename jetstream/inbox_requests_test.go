package jetstream

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// A node that takes over thousands of sessions reads their inboxes, and most of these are empty.
func TestALaneWhoseStreamHasNothingNeedsNoRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		requests := func(s content.SessionID) uint64 {
			before := c.Conn().Stats().OutMsgs
			read(t, c, s)
			return c.Conn().Stats().OutMsgs - before
		}
		if n := requests("empty"); n != 3 {
			t.Errorf("an empty inbox takes %d requests, want one for each stream", n)
		}
		send(t, c, submit("one", "a1", "hello"))
		if n := requests("one"); n != 6 { // with the three lanes of the stream, whose last message was read
			t.Errorf("an inbox with an input takes %d requests", n)
		}
	})
}

// A driver looks into the inbox before it claims the session, and reads it afterwards.
func TestAReadContinuesFromALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		r := c.Inbox().Reader("s1", nil)
		look := func(want bool) {
			t.Helper()
			if got, err := r.Look(t.Context()); got != want || err != nil {
				t.Fatalf("Look = %v, %v, want %v", got, err, want)
			}
		}
		reads := func(requests uint64, want ...string) {
			t.Helper()
			before := c.Conn().Stats().OutMsgs
			wantIDs(t, opened(t, c, r.Read(t.Context(), 0)), want...)
			if n := c.Conn().Stats().OutMsgs - before; n != requests {
				t.Errorf("%d requests, want %d", n, requests)
			}
		}
		look(false)
		sent := send(t, c, submit("s1", "a1", ""))
		reads(0) // the live copy is that of a listener
		reads(6, "ask a1")

		look(true)
		send(t, c, submit("s1", "a2", ""))
		r.LookAgain()
		reads(7, "ask a1", "ask a2")

		look(true)
		for m, err := range r.Read(t.Context(), 0) {
			must(t, err)
			wantIDs(t, opened(t, c, func(yield func(Message, error) bool) { yield(m, nil) }), "ask a1")
			break
		}
		reads(1, "ask a1", "ask a2") // the second of the lane: the first of each is known

		look(true)
		r.Adopt([]events.Cursor{{Lane: events.LaneAsk, Seq: sent[0], At: content.TimeOf(time.Now())}})
		reads(4, "ask a2")
		if got, err := c.Inbox().Reader("s2", nil).Look(t.Context()); got || err != nil {
			t.Errorf("Look into the inbox of another session = %v, %v", got, err)
		}
	})
}

// A node that takes a session over has the cursors of its last driver. If that driver handled the last command
// of a stream, its lane needs no request.
func TestALaneWhoseLastCommandIsHandledNeedsNoRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		r := c.Inbox().Reader("s1", nil)
		send(t, c, submit("s1", "a1", ""), submit("s1", "a2", ""))
		handle(t, r, "a1", "a2")
		reads := func(requests uint64, want ...string) {
			t.Helper()
			before := c.Conn().Stats().OutMsgs
			wantIDs(t, opened(t, c, c.Inbox().Read(t.Context(), "s1", slices.Collect(r.Cursors()), 0)), want...)
			if n := c.Conn().Stats().OutMsgs - before; n != requests {
				t.Errorf("%d requests, want %d", n, requests)
			}
		}
		reads(5) // the ends of three streams, and two lanes without cursors
		must(t, r.Purge(t.Context(), true))
		send(t, c, submit("s1", "a3", ""))
		reads(7, "ask a3") // with the last that is handled, and the first that is not
	})
}

// What is handled, and is the last of its stream, needs no further request.
func TestARereadOfWhatIsHandledAsksOnlyForTheEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		r := c.Inbox().Reader("s1", nil)
		send(t, c, submit("s1", "a1", ""))
		handle(t, r, "a1")
		before := c.Conn().Stats().OutMsgs
		wantIDs(t, opened(t, c, r.Read(t.Context(), 0)))
		if n := c.Conn().Stats().OutMsgs - before; n != 5 { // the ends of three streams, and two lanes
			t.Errorf("%d requests", n)
		}
		send(t, c, submit("s1", "a2", ""))
		wantIDs(t, opened(t, c, r.Read(t.Context(), 0)), "ask a2")
	})
}
