package jetstream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func listen(t *testing.T, c *Cell, s content.SessionID) *Listener {
	t.Helper()
	l, err := c.Inbox().Listen(t.Context(), s)
	must(t, err)
	t.Cleanup(l.Close)
	return l
}

// next waits for the next message.
func next(ctx context.Context, l *Listener) (Message, error) {
	select {
	case raw := <-l.C():
		m := l.Message(raw)
		return m, l.cell.Inbox().Open(ctx, &m)
	case <-l.Reconnected():
		return Message{Gap: true}, nil
	case <-ctx.Done():
		return Message{}, context.Cause(ctx)
	}
}

func hear(t *testing.T, l *Listener) Message {
	t.Helper()
	m, err := next(within(t, time.Minute), l)
	must(t, err)
	return m
}

func TestListenerReceivesEveryLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		now := content.TimeOf(time.Now())
		before := send(t, c, submit("s1", "a1", "sent before it listens"))
		l := listen(t, c, "s1")
		seqs := send(t, c, submit("s1", "a2", "hello"), submit("s2", "x", ""), decision("s1", "d1"), lostReport("s1", "r1"))
		want := []Message{
			{Lane: events.LaneAsk, Seq: seqs[0], At: now, Last: before[0], Envelope: submit("s1", "a2", "hello")},
			{Lane: events.LaneDecide, Seq: seqs[2], At: now, Envelope: decision("s1", "d1")},
			{Lane: events.LaneReport, Seq: seqs[3], At: now, Envelope: lostReport("s1", "r1")},
		}
		for _, w := range want {
			if diff := cmp.Diff(w, hear(t, l), cmpopts.IgnoreUnexported(Message{})); diff != "" {
				t.Errorf("received (-want +got):\n%s", diff)
			}
		}
		must(t, c.Timers().Arm(t.Context(), "s1", "timer-1", time.Now().Add(30*time.Second), fired("s1", "timer-1")))
		m := hear(t, l)
		if m.Lane != events.LaneDue || m.Envelope.ID != "timer-1" || m.Seq == 0 || m.Err != nil {
			t.Errorf("received %+v, want the timer on lane due", m)
		}
		wantIDs(t, read(t, c, "s1", events.Cursor{Lane: events.LaneDue, Seq: m.Seq}),
			"ask a1", "ask a2", "decide d1", "report r1")
	})
}

func TestListenerReportsAGapForLargeCommands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		l := listen(t, c, "s1")
		send(t, c, submit("s1", "large", strings.Repeat("x", maxInline+1)))
		if m := hear(t, l); !m.Gap {
			t.Errorf("received %s %s, want a gap", m.Lane, m.Envelope.ID)
		}
		wantIDs(t, read(t, c, "s1"), "ask large")
	})
}

func TestSlowListenerReportsAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		l := listen(t, c, "s1")
		const n = 2 * listenBuffer
		for i := range n {
			send(t, c, submit("s1", fmt.Sprint("a", i), ""))
		}
		synctest.Wait()
		heard, gap := 0, false
		for heard+1 < n && !gap {
			m := hear(t, l)
			gap = m.Gap
			heard++
		}
		if !gap || heard > 1 { // the buffer overflowed long ago
			t.Fatalf("gap = %v after %d messages, want one at once", gap, heard)
		}
		if got := len(read(t, c, "s1")); got != n {
			t.Errorf("%d commands in the inbox, want %d", got, n)
		}
		for { // the buffered commands still arrive
			if m := hear(t, l); m.Envelope.ID == fmt.Sprint("a", listenBuffer-1) {
				break
			}
		}
		last := send(t, c, submit("s1", "last", ""))
		if m := hear(t, l); m.Gap || m.Seq != last[0] {
			t.Errorf("received %+v, want the last command", m)
		}
	})
}

// Their workers put them into the inbox, so the driver need not read it.
func TestDirectReportsThatAreDroppedAreNoGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		l := listen(t, c, "s1")
		for range 2 * directBuffer {
			must(t, c.nc.Publish(c.names.Report("s1"), nil))
		}
		synctest.Wait()
		if got := len(l.Direct()); got != directBuffer {
			t.Fatalf("%d direct reports wait, want %d", got, directBuffer)
		}
		seqs := send(t, c, submit("s1", "a1", ""))
		if m := hear(t, l); m.Gap || m.Seq != seqs[0] {
			t.Errorf("received %+v, want the command", m)
		}
	})
}

func TestListenerReportsAGapAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s))
		nc := connect(t, s)
		l := listen(t, openCell(t, nc), "s1")
		reconnect(t, nc)
		if m := hear(t, l); !m.Gap {
			t.Errorf("received %+v after a reconnect, want a gap", m)
		}
		synctest.Wait()
		seqs := send(t, c, submit("s1", "a1", ""))
		if m := hear(t, l); m.Seq != seqs[0] {
			t.Errorf("received %+v, want the command after the reconnect", m)
		}
	})
}

func TestClosedListenerReceivesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		l, err := c.Inbox().Listen(t.Context(), "s1")
		must(t, err)
		send(t, c, submit("s1", "a1", "")) // never received
		l.Close()
		if subs := c.nc.NumSubscriptions(); subs > 2 { // for answers to the client's requests, and to the cell's
			t.Errorf("%d subscriptions are left", subs)
		}
	})
}
