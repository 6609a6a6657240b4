package jetstream

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/rewind"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// as returns the cell over a connection of the user with that name.
func as(t *testing.T, c *Cell, user string) *Cell {
	t.Helper()
	opts := c.nc.Opts
	opts.InboxPrefix = layout.InboxOf(user)
	nc, err := opts.Connect()
	must(t, err)
	t.Cleanup(nc.Close)
	return openCell(t, nc)
}

func TestAUserWithANameSendsUnderIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		ada, bob := as(t, c, "ada"), as(t, c, "bob")
		send(t, c, submit("s1", "a1", ""))
		send(t, ada, submit("s1", "a2", ""), lostReport("s1", "r1"))
		send(t, bob, decision("s1", "d1"), submit("s1", "a3", ""))
		send(t, ada, submit("s1", "a4", ""), submit("s2", "x", ""))
		send(t, c, decision("s1", "d2"))
		r := c.Inbox().Reader("s1", nil)
		all := opened(t, c, r.Read(t.Context(), 0))
		wantIDs(t, all, "ask a1", "ask.* a2", "ask.* a3", "ask.* a4", "decide d2", "decide.* d1", "report r1")
		for i, want := range []string{"", "ada", "bob", "ada", "", "bob", ""} {
			if got := all[i].User; got != want {
				t.Errorf("%s was sent by %q, want %q", all[i].Envelope.ID, got, want)
			}
		}
		for _, m := range all[:3] {
			r.Take(m)
		}
		must(t, r.Purge(t.Context(), true))
		wantIDs(t, read(t, c, "s1", slices.Collect(r.Cursors())...), "ask.* a4", "decide d2", "decide.* d1", "report r1")
		wantIDs(t, read(t, c, "s1"), "ask a1", "ask.* a3", "ask.* a4", "decide d2", "decide.* d1", "report r1")
		must(t, r.Purge(t.Context(), false))
		wantIDs(t, read(t, c, "s1"), "ask.* a4", "decide d2", "decide.* d1", "report r1")
		if active, _, err := c.Runs().Sessions(t.Context()); err != nil || !active["s2"] {
			t.Errorf("active sessions: %v, %v, want s2, to which only ada sent a command", active, err)
		}
		if any, err := c.Inbox().HasAny(t.Context(), "s2"); err != nil || !any {
			t.Errorf("s2 has a command: %t, %v", any, err)
		}
	})
}

// The copy of a named user's command tells of the last one on that user's subject. One of another user may
// have been missed, so the inbox is read.
func TestACopyOfANamedUsersCommandDoesNotMoveTheLane(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		l, r := listen(t, c, "s1"), c.Inbox().Reader("s1", nil)
		send(t, as(t, c, "ada"), submit("s1", "a1", ""))
		send(t, as(t, c, "bob"), submit("s1", "a2", ""))
		first, second := hear(t, l), hear(t, l)
		if first.User != "ada" || second.User != "bob" || r.Follows(first) || r.Follows(second) || r.Old(first) {
			t.Errorf("copies %+v, %+v: want each to have the inbox read", first, second)
		}
		handle(t, r, "a1")
		if !r.Old(first) || r.Old(second) || r.Follows(second) {
			t.Errorf("handled: first old %t, second %t, follows %t", r.Old(first), r.Old(second), r.Follows(second))
		}
	})
}

// Sequences of several users begin again together.
func TestCommandsOfNamedUsersAreHandledAfterALoss(t *testing.T) {
	t.Parallel()
	onFile(t, func(t *testing.T, c *Cell) {
		ada, bob := as(t, c, "ada"), as(t, c, "bob")
		send(t, ada, submit("s1", "a1", ""))
		send(t, bob, submit("s1", "b1", ""), decision("s1", "d1"))
		old, err := rewind.Keep(t.Context(), c.nc, c.names.NamedStream())
		must(t, err)
		send(t, ada, submit("s1", "a2", ""))
		got, cursors := drive(t, c, nil, false)
		wantHandled(t, got, "a1", "b1", "a2", "d1")
		for _, id := range got {
			record(t, c, id)
		}
		recreate(t, c, c.names.NamedStream())
		<-time.After(time.Second)
		send(t, bob, submit("s1", "b2", ""))
		got, cursors = drive(t, c, cursors, true)
		wantHandled(t, got, "b2")
		record(t, c, "b2")

		must(t, old.Restore(t.Context(), c.nc))
		<-time.After(time.Second)
		send(t, ada, submit("s1", "a3", ""))
		got, _ = drive(t, c, cursors, true)
		wantHandled(t, got, "a3")
		wantIDs(t, read(t, c, "s1"))
	})
}

func TestASubjectWithAnImpossibleUserHasNoCommand(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		data, err := submit("s1", "a1", "").Encode()
		must(t, err)
		_, err = c.api.Publish(t.Context(), &nats.Msg{Subject: c.names.CmdOf("a\x1b[2J", "s1", events.LaneAsk), Data: data})
		must(t, err)
		if all := read(t, c, "s1"); len(all) != 1 || !errors.Is(all[0].Err, commands.ErrBadCommand) {
			t.Errorf("read %+v", all)
		}
	})
}

func TestSpoofedMessagesOfANamedUserAreNotCommands(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		data, err := decision("s1", "d1").Encode()
		must(t, err)
		spoof(t, c, c.names.CmdOf("ada", "s1", events.LaneDecide), data)
		<-time.After(time.Second)
		if all := read(t, c, "s1"); len(all) != 1 || !errors.Is(all[0].Err, commands.ErrBadCommand) {
			t.Errorf("read %+v", all)
		}
	})
}
