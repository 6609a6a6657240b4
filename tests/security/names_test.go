package security

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/session"
)

func TestAUserSendsCommandsOnlyUnderItsName(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		for name, may := range map[string]map[string]bool{
			"ada":      {"ask.ada": true, "decide.ada": true},
			"bob":      {"ask.bob": true, "decide.bob": true},
			"client":   {"ask": true},
			"approver": {"decide": true},
			"driver":   {"ask": true, "decide": true},
		} {
			nc := c.connect(name)
			for _, suffix := range []string{"ask", "ask.ada", "ask.bob", "ask.eve", "decide", "decide.ada", "decide.bob", "report", "report.ada"} {
				if got := c.publishes(name, nc, "turnlog.cmd.s."+suffix); got != may[suffix] {
					t.Errorf("%s publishes on %s: %t, want %t", name, suffix, got, may[suffix])
				}
			}
		}
	})
}

// TestAUserWithTheWrongNameIsTold connects as ada under bob's inbox prefix, which would be bob's name.
func TestAUserWithTheWrongNameIsTold(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		for prefix, want := range map[string]string{
			users()["bob"].Prefix():    "_USER_bob.",
			users()["client"].Prefix(): "_INBOX_client.",
		} {
			nc, err := c.srv.Connect(c.as("ada"), nats.CustomInboxPrefix(prefix), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			cell, err := jetstream.Open(nc, "")
			if err != nil {
				t.Fatal(err)
			}
			_, err = cell.Inbox().Send(c.ctx, commands.Envelope{ID: "x", Session: "s", Command: commands.Cancel{Scope: commands.ScopeTurn}})
			if d, ok := errors.AsType[*jetstream.DeniedError](err); !ok || !strings.HasPrefix(d.Subject, want) && !strings.HasPrefix(d.Subject, "turnlog.cmd.s.ask") {
				t.Errorf("with %s: %v, want that it is denied", prefix, err)
			}
		}
		synctest.Wait()
		if any, err := c.open("driver").Inbox().HasAny(c.ctx, "s"); any || err != nil {
			t.Errorf("a command arrived: %t, %v", any, err)
		}
	})
}

// TestNoReplyBearsAnotherName has ada store a command of bob's and direct the server's replies at bob's subject.
func TestNoReplyBearsAnotherName(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		forged, err := commands.Envelope{ID: "forged", Session: "s", By: "bob", Command: commands.Cancel{Scope: commands.ScopeTurn}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		const bobs = "turnlog.cmd.s.ask.bob"
		for _, request := range []string{"$JS.API.DIRECT.GET.OBJ_TURNLOG_BLOBS", "$JS.API.STREAM.MSG.GET.OBJ_TURNLOG_BLOBS", "turnlog.run.s", "turnlog.cmd.s.ask.ada"} {
			attack{by: "ada", request: request, reply: bobs, body: string(forged)}.do(c)
		}
		synctest.Wait()
		inbox := c.open("driver").Inbox()
		for m, err := range inbox.Read(c.ctx, "s", nil, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if err := inbox.Open(c.ctx, &m); err != nil {
				t.Fatal(err)
			}
			if m.User == "bob" && m.Err == nil {
				t.Errorf("a command of bob's: %+v", m.Envelope)
			}
		}
	})
}

func TestUsersWithNamesWorkOnOneSession(t *testing.T) {
	bubble(t, func(c *cell) {
		ada, bob := c.person("ada"), c.person("bob")
		node := c.world("driver").Node(actor.Config{Name: "n1"})
		s := ada.Start("s", "replies:\n  - text: one\n  - text: two\n")
		defer func() { _ = s.Close(c.ctx) }()
		submit(ada, s)
		if got := next[*session.Finished](ada, s).Result.Text(); got != "one" {
			c.t.Errorf("first turn: %q", got)
		}
		again, err := bob.Client.Attach(bob.Ctx, "s")
		if err != nil {
			c.t.Fatal(err)
		}
		defer func() { _ = again.Close(c.ctx) }()
		if err := again.Send(bob.Ctx, "", content.UserText("go on")); err != nil {
			c.t.Fatal(err)
		}
		if got := next[*session.Finished](bob, again).Result.Text(); got != "two" {
			c.t.Errorf("second turn: %q", got)
		}
		node.Drain(c.t)
		c.clean()
	})
}
