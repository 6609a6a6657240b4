package client_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/session"
)

// TestADeletedSessionEndsForEveryClient deletes one while a driver still holds it, and one
// that is parked.
func TestADeletedSessionEndsForEveryClient(t *testing.T) {
	for name, wait := range map[string]time.Duration{"held": 0, "parked": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.drive(engine.Config{})()
				s := w.Start("s", "replies:\n  - text: Hello.\n    repeat: true\n")
				defer func() { _ = s.Close(t.Context()) }()
				if err := s.Send(w.Ctx, events.Queue, content.UserText("hi")); err != nil {
					t.Fatal(err)
				}
				for range 2 { // the turn's end, and what follows
					if _, err := s.Next(w.Ctx); err != nil {
						t.Fatal(err)
					}
				}
				if wait > 0 {
					<-time.After(wait)
				}
				last, err := w.Cell.Journal().Last(w.Ctx, "s")
				if err != nil {
					t.Fatal(err)
				}
				k := admin.Of(w.Cell)
				if _, err := k.Delete(w.Ctx, last, events.SessionDeleted{By: "ada", Reason: "asked to"}); err != nil {
					t.Fatal(err)
				}
				if _, err := k.Clear(w.Ctx, "s"); err != nil {
					t.Fatal(err)
				}
				over := func(what string, err error) {
					t.Helper()
					d, ok := errors.AsType[*session.DeletedError](err)
					r, refused := errors.AsType[*session.InvalidStateError](err)
					switch {
					case ok && d.By == "ada" && d.Entries == last.Seq && d.Last == last.Hash:
					case refused && r.Reason == "deleted" && strings.Contains(r.Detail, "by ada (claimed) (asked to)"):
					default:
						t.Errorf("%s: %v, want that it was deleted", what, err)
					}
				}
				synctest.Wait() // until the message about it has arrived
				_, err = s.Next(w.Ctx)
				over("Next", err)
				over("Submit", s.Send(w.Ctx, events.Queue, content.UserText("more")))
				c, err := client.Open(w.Conn, "")
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.Attach(w.Ctx, "s")
				over("Attach", err)
				_, err = c.Start(w.Ctx, client.Options{ID: "s", Config: events.Config{Model: "scripted"}})
				if r, ok := errors.AsType[*session.InvalidStateError](err); !ok || wait > 0 || r.Reason != "session_exists" {
					over("Start under its id", err) // a driver that still holds it may not know that, but cannot write
				}

				// A command that is sent after the deletion is refused and removed.
				if err := c.Send(w.Ctx, "s", "late", commands.SubmitInput{Items: []content.Item{content.UserText("late")}}); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Minute)
				if any, err := w.Cell.Inbox().HasAny(w.Ctx, "s"); any || err != nil {
					t.Errorf("its inbox holds something: %v, %v", any, err)
				}
				if all := w.Records("s"); len(all) != 1 || all[0].Seq != last.Seq+1 {
					t.Errorf("its journal has %d entries, want the tombstone", len(all))
				}
			})
		})
	}
}
