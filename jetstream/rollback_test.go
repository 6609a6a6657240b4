package jetstream

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/rewind"
)

// onFile runs a test in virtual time with a cell whose streams are on disk, so that they can be kept
// and restored.
func onFile(t *testing.T, test func(t *testing.T, c *Cell)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := openCell(t, connect(t, startServer(t, embedded.WithStore(dir))))
		create(t, c, jetstream.FileStorage, 1)
		test(t, c)
	})
}

// drive handles all commands of an inbox, as a driver does, and returns their IDs and the cursors to
// record.
func drive(t *testing.T, c *Cell, cursors []events.Cursor, purge bool) (handled []string, _ []events.Cursor) {
	t.Helper()
	r := c.Inbox().Reader("s1", cursors)
	for m, err := range r.Read(t.Context(), 0) {
		must(t, err)
		must(t, c.Inbox().Open(t.Context(), &m))
		handled = append(handled, m.Envelope.ID)
		r.Take(m)
	}
	if purge {
		must(t, r.Purge(t.Context(), false))
	}
	return handled, slices.Collect(r.Cursors())
}

func wantHandled(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("handled %q, want %q", got, want)
	}
}

func TestCommandsOfARestoredInboxAreHandledOnce(t *testing.T) {
	t.Parallel()
	onFile(t, func(t *testing.T, c *Cell) {
		ctx, n := t.Context(), c.names
		tick := func() { <-time.After(time.Second) }
		var cursors []events.Cursor
		want := func(purge bool, want ...string) {
			t.Helper()
			tick()
			var got []string
			got, cursors = drive(t, c, cursors, purge)
			wantHandled(t, got, want...)
		}
		send(t, c, submit("s1", "a1", ""), submit("s1", "a2", ""), lostReport("s1", "r1"))
		want(false, "a1", "a2", "r1")
		send(t, c, submit("s1", "a3", ""))
		old, err := rewind.Keep(ctx, c.nc, n.InboxStream()) // with three handled commands and one that is not
		must(t, err)
		want(true, "a3")
		for i := range 20 {
			send(t, c, submit("s1", "more-"+string(rune('a'+i)), ""))
		}
		_, cursors = drive(t, c, cursors, true)

		must(t, old.Restore(ctx, c.nc))
		want(false) // all of it is handled
		send(t, c, submit("s1", "b1", ""), decision("s1", "d1"))
		want(true, "b1", "d1")
		wantIDs(t, read(t, c, "s1"))

		// The sequences pass the old cursors before the session is driven again.
		must(t, old.Restore(ctx, c.nc))
		tick()
		send(t, c, submit("s1", "c1", ""))
		for range 40 {
			send(t, c, submit("other", "x", ""))
		}
		send(t, c, submit("s1", "c2", ""))
		want(true, "c1", "c2")
		wantIDs(t, read(t, c, "s1"))
	})
}

func TestCommandsOfARecreatedInboxAreHandled(t *testing.T) {
	t.Parallel()
	onFile(t, func(t *testing.T, c *Cell) {
		ctx, n := t.Context(), c.names
		send(t, c, submit("s1", "a1", ""), submit("s1", "a2", ""), submit("s1", "a3", ""))
		_, cursors := drive(t, c, nil, false)
		for _, e := range []string{"a1", "a2", "a3"} {
			record(t, c, e)
		}
		old, err := rewind.Keep(ctx, c.nc, n.InboxStream())
		must(t, err)
		recreate(t, c, n.InboxStream())
		<-time.After(time.Second)
		send(t, c, submit("s1", "b1", ""))
		var got []string
		got, cursors = drive(t, c, cursors, true)
		wantHandled(t, got, "b1")

		// The backup holds commands with later sequences, which are older. The journal names them.
		must(t, old.Restore(ctx, c.nc))
		<-time.After(time.Second)
		send(t, c, submit("s1", "c1", ""))
		got, _ = drive(t, c, cursors, true)
		wantHandled(t, got, "c1")
		wantIDs(t, read(t, c, "s1"))
	})
}

// TestAReaderNoticesThatSequencesBeganAgain has the inbox recreated under a driver that lives.
func TestAReaderNoticesThatSequencesBeganAgain(t *testing.T) {
	t.Parallel()
	onFile(t, func(t *testing.T, c *Cell) {
		send(t, c, submit("s1", "a1", ""), submit("s1", "a2", ""), submit("s1", "a3", ""))
		l := listen(t, c, "s1")
		r := c.Inbox().Reader("s1", nil)
		handle(t, r, "a1", "a2", "a3")
		recreate(t, c, c.names.InboxStream())
		<-time.After(time.Second)
		send(t, c, submit("s1", "b1", ""), submit("s1", "b2", ""))
		for range 2 {
			if m := hear(t, l); r.Follows(m) || r.Old(m) {
				t.Errorf("%s follows what was handled: %v, is old: %v", m.Envelope.ID, r.Follows(m), r.Old(m))
			}
		}
		must(t, r.Purge(t.Context(), false)) // it deletes nothing that was not handled
		wantIDs(t, read(t, c, "s1"), "ask b1", "ask b2")
		handle(t, r, "b1", "b2")
		must(t, r.Purge(t.Context(), false))
		wantIDs(t, read(t, c, "s1"))
	})
}

// recreate deletes a stream and creates it again.
func recreate(t *testing.T, c *Cell, stream string) {
	t.Helper()
	js := jsOf(t, c)
	must(t, js.DeleteStream(t.Context(), stream))
	for _, s := range c.names.Streams() {
		if s.Config.Name == stream {
			s.Config.Storage = jetstream.FileStorage
			_, err := js.CreateStream(t.Context(), s.Config)
			must(t, err)
		}
	}
}

// record appends an entry with a cause to the journal of s1.
func record(t *testing.T, c *Cell, cause string) {
	t.Helper()
	last, err := c.Journal().Last(t.Context(), "s1")
	if err != nil {
		last = journal.Record{}
	}
	_, err = c.Journal().Append(t.Context(), last.Head, events.Entry{
		Session: "s1", Cause: cause, At: content.TimeOf(time.Now()), Events: []events.Event{events.Parked{}},
	})
	must(t, err)
}
