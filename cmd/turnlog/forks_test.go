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
	bring func(t *testing.T, url string, f family) // into the state
	open  string                                   // session that is not at rest; "": none
	gone  bool                                     // s has its tombstone

	flag   string // with which s is deleted
	prefix string // of the names of the sessions
}

func families() (all []family) {
	asks := func(t *testing.T, url string, f family) {
		t.Helper()
		if code := at(t, url, "send", f.prefix+f.open, "--wait", "Greet").end(t); code == cli.CodeOK {
			t.Fatal("nothing waits for an approval")
		}
	}
	expires := func(t *testing.T, url string, f family) {
		t.Helper()
		cell := cellAt(t, url)
		persist(t, "it expires", func() bool { // its driver may just leave
			last, err := cell.Journal().Last(t.Context(), f.id("s"))
			if err == nil {
				_, err = admin.Of(cell).Delete(t.Context(), last, events.SessionDeleted{By: "gc", Expired: true})
			}
			return err == nil
		})
	}
	for i, f := range []family{
		{name: "at rest", bring: func(*testing.T, string, family) {}},
		{name: "waits for an approval", bring: asks, open: "s"},
		{name: "a fork waits for an approval", bring: asks, open: "b"},
		{name: "a fork of a fork waits for an approval", bring: asks, open: "c"},
		{name: "closed", bring: func(t *testing.T, url string, f family) {
			t.Helper()
			c, err := client.Open(clitest.Dial(t, url), "")
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Attach(t.Context(), f.id("s"))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Ask(t.Context(), commands.Close{}); err != nil {
				t.Fatal(err)
			}
			_ = s.Close(t.Context())
		}},
		{name: "expired", gone: true, bring: func(t *testing.T, url string, f family) {
			t.Helper()
			expires(t, url, f)
			if _, err := admin.Of(cellAt(t, url)).Clear(t.Context(), f.id("s")); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "expiring", gone: true, bring: expires}, // gc was interrupted
	} {
		for _, f.flag = range []string{"--with-forks", "--keep-forks"} {
			f.prefix = fmt.Sprintf("%d%s-", i, strings.Trim(f.flag, "-"))
			all = append(all, f)
		}
	}
	return all
}

// id returns the name of one of the sessions s, a, b and c.
func (f family) id(name string) content.SessionID { return content.SessionID(f.prefix + name) }

// In each state, also in a deployment that was restored from a backup, a session with forks is deleted as the flags say, or nothing is.
func TestASessionWithForksIsDeletedInEveryState(t *testing.T) {
	t.Parallel()
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
	t.Run("begin", func(t *testing.T) {
		for _, f := range families() {
			t.Run(f.name+", "+f.flag, func(t *testing.T) {
				t.Parallel()
				f.begin(t, url)
			})
		}
	})
	backup := filepath.Join(t.TempDir(), "backup")
	succeed(t, url, "backup", backup)
	deleted := func(url string, restored bool) {
		t.Helper()
		t.Run(fmt.Sprintf("restored %v", restored), func(t *testing.T) {
			for _, f := range families() {
				t.Run(f.name+", "+f.flag, func(t *testing.T) {
					t.Parallel()
					f.ends(t, url)
				})
			}
		})
	}
	deleted(url, false)
	stop()
	url, cell = serve()
	succeed(t, url, "restore", backup)
	hostOn(t, cell, cfg, greet(t))
	deleted(url, true)
}

// ends has s deleted, once its state and the flag permit it.
func (f family) ends(t *testing.T, url string) {
	t.Helper()
	s := f.prefix + "s"
	if !f.gone {
		f.refused(t, url, "", fmt.Sprintf("session %s is not deleted: it has forks, which contain its history: %sa, %sb: ", s, f.prefix, f.prefix))
	}
	if f.open == "s" || f.open != "" && f.flag == "--with-forks" {
		f.refused(t, url, f.flag, "session "+f.prefix+f.open+" is not deleted: turn-")
		succeed(t, url, "cancel", f.prefix+f.open)
		awaitEvents(t, url, f.id(f.open), events.KindTurnFinished, map[bool]int{true: 2, false: 1}[f.open == "s"])
	}
	f.deleted(t, url)
}

// begin makes the sessions and puts them into the state.
func (f family) begin(t *testing.T, url string) {
	t.Helper()
	model := scripted(t, "replies: [{text: Hello.}, {calls: [{name: greet}]}, {text: Done.}]\nrepeat: true\n")
	succeed(t, url, "run", "--session", f.prefix+"s", "--model", model, "hello")
	succeed(t, url, "fork", f.prefix+"s", "--session", f.prefix+"a")
	succeed(t, url, "fork", f.prefix+"s", "--session", f.prefix+"b")
	succeed(t, url, "fork", f.prefix+"a", "--session", f.prefix+"c")
	f.bring(t, url, f)
}

// refused checks that nothing is deleted.
func (f family) refused(t *testing.T, url, flag, why string) {
	t.Helper()
	p := at(t, url, strings.Fields("sessions rm "+f.prefix+"s "+flag)...)
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), why) {
		t.Errorf("sessions rm exits with %d: %s", code, p.err)
	}
	f.left(t, url, "sabc")
}

// deleted deletes s. The forks that are kept lose nothing.
func (f family) deleted(t *testing.T, url string) {
	t.Helper()
	succeed(t, url, "sessions", "rm", f.prefix+"s", f.flag, "--keep-blobs")
	if f.flag == "--with-forks" {
		f.left(t, url, "")
		return
	}
	f.left(t, url, "abc")
	for _, id := range []string{"a", "b", "c"} {
		if id == f.open {
			succeed(t, url, "approve", f.prefix+id, "call_2_1")
			succeed(t, url, "wait", f.prefix+id)
		} else if out := succeed(t, url, "send", f.prefix+id, "--wait", "--yes", "Go on"); out != "Done.\n" {
			t.Errorf("fork %s says %q", id, out)
		}
	}
}

// left checks which sessions are left. The others are deleted completely.
func (f family) left(t *testing.T, url, want string) {
	t.Helper()
	cell := cellAt(t, url)
	var left strings.Builder
	for _, id := range []string{"s", "a", "b", "c"} {
		entries, deleted := 0, false
		for rec, err := range cell.Journal().Read(t.Context(), f.id(id), 0) {
			if err != nil {
				t.Fatal(err)
			}
			entries++
			_, deleted = events.DeletionOf(rec.Entry)
		}
		if !deleted {
			left.WriteString(id)
		} else if entries != 1 {
			t.Errorf("session %s%s is deleted, and has %d entries", f.prefix, id, entries)
		}
	}
	if left.String() != want {
		t.Errorf("of the sessions s, a, b, c there are %q, want %q", left.String(), want)
	}
}
