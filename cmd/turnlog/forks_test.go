package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// family is session s, its forks a and b, and the fork c of a, in a state.
type family struct {
	name  string
	bring func(t *testing.T, url string) // into the state
	open  string                         // session that is not at rest; "": none
	gone  bool                           // s has its tombstone
}

func families() []family {
	asks := func(id string) func(*testing.T, string) {
		return func(t *testing.T, url string) {
			t.Helper()
			if code := at(t, url, "send", id, "--wait", "Greet").end(t); code == cli.CodeOK {
				t.Fatal("nothing waits for an approval")
			}
		}
	}
	expires := func(t *testing.T, url string) {
		t.Helper()
		cell := cellAt(t, url)
		persist(t, "it expires", func() bool { // its driver may just leave
			last, err := cell.Journal().Last(t.Context(), "s")
			if err == nil {
				_, err = admin.Of(cell).Delete(t.Context(), last, events.SessionDeleted{By: "gc", Expired: true})
			}
			return err == nil
		})
	}
	return []family{
		{name: "at rest", bring: func(*testing.T, string) {}},
		{name: "waits for an approval", bring: asks("s"), open: "s"},
		{name: "a fork waits for an approval", bring: asks("b"), open: "b"},
		{name: "a fork of a fork waits for an approval", bring: asks("c"), open: "c"},
		{name: "closed", bring: func(t *testing.T, url string) {
			t.Helper()
			c, err := client.Open(clitest.Dial(t, url), "")
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Attach(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Ask(t.Context(), commands.Close{}); err != nil {
				t.Fatal(err)
			}
			_ = s.Close(t.Context())
		}},
		{name: "expired", gone: true, bring: func(t *testing.T, url string) {
			t.Helper()
			expires(t, url)
			if _, err := admin.Of(cellAt(t, url)).Clear(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "expiring", gone: true, bring: expires}, // gc was interrupted
	}
}

// In each state, also in a deployment that was restored from a backup, a session with forks is deleted as the flags say, or nothing is.
func TestASessionWithForksIsDeletedInEveryState(t *testing.T) {
	t.Parallel()
	for _, f := range families() {
		for _, restored := range []bool{false, true} {
			for _, flag := range []string{"--with-forks", "--keep-forks"} {
				t.Run(fmt.Sprintf("%s, restored %v, %s", f.name, restored, flag), func(t *testing.T) {
					t.Parallel()
					url := f.start(t, restored)
					if !f.gone {
						f.refused(t, url, "", "session s is not deleted: it has forks, which contain its history: a, b: ")
					}
					if f.open == "s" || f.open != "" && flag == "--with-forks" {
						f.refused(t, url, flag, "session "+f.open+" is not deleted: turn-")
						succeed(t, url, "cancel", f.open)
						awaitEvents(t, url, content.SessionID(f.open), events.KindTurnFinished, map[bool]int{true: 2, false: 1}[f.open == "s"])
					}
					f.deleted(t, url, flag)
				})
			}
		}
	}
}

// start starts a deployment with the family.
func (f family) start(t *testing.T, restored bool) (url string) {
	t.Helper()
	cfg := node()
	cfg.Effects = engine.Config{Permissions: askFirst{}}
	serve := func() (string, *cli.Cell) {
		cell, nc := clitest.Open(t, natstest.Serve(t).ClientURL())
		return nc.ConnectedUrl(), &cli.Cell{Cell: cell, Conn: nc}
	}
	url, cell := serve()
	if err := admin.Of(cell.Cell).Provision(t.Context(), admin.Config{Queues: []admin.QueueConfig{{Name: defaultQueue}}}); err != nil {
		t.Fatal(err)
	}
	stop := hostOn(t, cell, cfg, greet(t))
	model := scripted(t, "replies: [{text: Hello.}, {calls: [{name: greet}]}, {text: Done.}]\nrepeat: true\n")
	succeed(t, url, "run", "--session", "s", "--model", model, "hello")
	succeed(t, url, "fork", "s", "--session", "a")
	succeed(t, url, "fork", "s", "--session", "b")
	succeed(t, url, "fork", "a", "--session", "c")
	f.bring(t, url)
	if !restored {
		return url
	}
	backup := filepath.Join(t.TempDir(), "backup")
	succeed(t, url, "backup", backup)
	stop()
	url, cell = serve()
	succeed(t, url, "restore", backup)
	hostOn(t, cell, cfg, greet(t))
	return url
}

// refused checks that nothing is deleted.
func (f family) refused(t *testing.T, url, flag, why string) {
	t.Helper()
	p := at(t, url, strings.Fields("sessions rm s "+flag)...)
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), why) {
		t.Errorf("sessions rm exits with %d: %s", code, p.err)
	}
	f.left(t, url, "sabc")
}

// deleted deletes s. The forks that are kept lose nothing.
func (f family) deleted(t *testing.T, url, flag string) {
	t.Helper()
	succeed(t, url, "sessions", "rm", "s", flag, "--keep-blobs")
	if flag == "--with-forks" {
		f.left(t, url, "")
		return
	}
	f.left(t, url, "abc")
	for _, id := range []string{"a", "b", "c"} {
		if id == f.open {
			succeed(t, url, "approve", id, "call_2_1")
			succeed(t, url, "wait", id)
		} else if out := succeed(t, url, "send", id, "--wait", "--yes", "Go on"); out != "Done.\n" {
			t.Errorf("fork %s says %q", id, out)
		}
	}
}

// left checks which sessions are left. The others are deleted completely.
func (f family) left(t *testing.T, url, want string) {
	t.Helper()
	cell := cellAt(t, url)
	var left strings.Builder
	for _, id := range []content.SessionID{"s", "a", "b", "c"} {
		entries, deleted := 0, false
		for rec, err := range cell.Journal().Read(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			entries++
			_, deleted = events.DeletionOf(rec.Entry)
		}
		if !deleted {
			left.WriteString(string(id))
		} else if entries != 1 {
			t.Errorf("session %s is deleted, and has %d entries", id, entries)
		}
	}
	if left.String() != want {
		t.Errorf("of the sessions s, a, b, c there are %q, want %q", left.String(), want)
	}
}
