package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream/admin"
)

func TestASessionIsDeletedForGood(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	model := scripted(t, echo)
	for _, s := range []string{"s", "other"} {
		succeed(t, url, "run", "--session", s, "--model", model, "hello")
	}
	expect(t, cli.CodeUsage, "sessions", "rm", "s", "--server", url, "--reason", strings.Repeat("x", 1001))
	out := succeed(t, url, "sessions", "rm", "s", "--reason", "asked to")
	if !strings.HasPrefix(out, "s was deleted at ") || !strings.Contains(out, " (asked to): ") || !strings.Contains(out, "0 of 0 blobs removed") {
		t.Errorf("sessions rm prints %q", out)
	}
	if again := succeed(t, url, "sessions", "rm", "s", "--keep-blobs"); !strings.HasPrefix(again, "s was deleted at ") || !strings.Contains(again, "; 0 entries removed") {
		t.Errorf("sessions rm again prints %q", again)
	}
	if got := succeed(t, url, "sessions", "ls"); !strings.Contains(got, "\nother    idle ") || strings.Contains(got, "\ns ") {
		t.Errorf("sessions ls prints %q", got)
	}
	if got := succeed(t, url, "sessions", "show", "s"); !strings.HasPrefix(got, "session s was deleted at ") || strings.Count(got, "\n") != 1 {
		t.Errorf("sessions show prints %q", got)
	}
	for _, args := range [][]string{
		{"run", "--session", "s", "--model", model, "again"},
		{"send", "s", "more"},
		{"wait", "s"},
		{"calls", "s"},
		{"cancel", "s"},
		{"approvals", "ls", "s"},
		{"dead", "ls", "s"},
	} {
		p := at(t, url, args...)
		if code := p.end(t); code != cli.CodeFailed || !strings.HasPrefix(p.err.String(), "turnlog: session s was deleted at ") {
			t.Errorf("turnlog %q exits with %d: %s", args, code, p.err)
		}
	}
	p := at(t, url, "sessions", "rm", "other", "none", "-o", "json")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "session none: no such session") {
		t.Errorf("sessions rm of none exits with %d: %s", code, p.err)
	}
	var r removalReport
	if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil || len(r.Sessions) != 1 || r.Sessions[0].Session != "other" || r.Sessions[0].Entries == 0 {
		t.Errorf("sessions rm -o json prints %s, %v", p.out, err)
	}
}

// A deletion is completed without the flag for forks: a session with a tombstone is deleted, and is no fork.
func TestADeletionWithForksIsCompleted(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	succeed(t, url, "run", "--session", "s", "--model", scripted(t, echo), "hello")
	succeed(t, url, "fork", "s", "--session", "fork")
	succeed(t, url, "fork", "fork", "--session", "kept")
	cell := cellAt(t, url)
	begin := func(id content.SessionID) {
		t.Helper()
		persist(t, "it is deleted", func() bool { // its driver may just leave
			last, err := cell.Journal().Last(t.Context(), id)
			if err == nil {
				_, err = admin.Of(cell).Delete(t.Context(), last, events.SessionDeleted{By: "tester"})
			}
			return err == nil
		})
	}
	begin("fork")
	if out := succeed(t, url, "sessions", "rm", "s"); !strings.HasPrefix(out, "s was deleted at ") {
		t.Errorf("sessions rm prints %q", out)
	}
	if out := succeed(t, url, "sessions", "rm", "fork"); strings.Contains(out, "; 0 entries removed") {
		t.Errorf("sessions rm prints %q", out)
	}
	if out := succeed(t, url, "send", "kept", "--wait", "again"); out == "" {
		t.Error("the fork that was kept says nothing")
	}
}

func TestASessionAtWorkIsNotDeleted(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	p := at(t, url, "run", "--session", "s", "--model", scripted(t, endless), "hello")
	for succeeded := false; !succeeded; {
		show := at(t, url, "sessions", "show", "s")
		succeeded = show.end(t) == cli.CodeOK && strings.Contains(show.out.String(), "open turn")
	}
	rm := at(t, url, "sessions", "rm", "s")
	if code := rm.end(t); code != cli.CodeFailed || !strings.Contains(rm.err.String(), `session s is not deleted: turn-1 is open: wait for its end, or "turnlog cancel s" first`) {
		t.Errorf("sessions rm exits with %d: %s", code, rm.err)
	}
	succeed(t, url, "cancel", "s")
	p.end(t)
	if out := succeed(t, url, "sessions", "rm", "s"); !strings.HasPrefix(out, "s was deleted at ") {
		t.Errorf("sessions rm prints %q", out)
	}
}

// A refused command stays in the inbox until the session parks, which it does not.
func TestASessionIsDeletedAfterARefusedCommand(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	succeed(t, url, "run", "--session", "s", "--model", "demo", "hello")
	expect(t, cli.CodeFailed, "detach", "s", "call_1_1", "--server", url)
	if out := succeed(t, url, "sessions", "rm", "s"); !strings.HasPrefix(out, "s was deleted at ") {
		t.Errorf("sessions rm prints %q", out)
	}
}

// The driver of an idle session ends later and records that. It must not prevent the
// deletion.
func TestASessionIsDeletedWhileItsDriverLeaves(t *testing.T) {
	t.Parallel()
	url := cellOf(t, actor.Config{})
	cell, nc := cellAt(t, url), clitest.Dial(t, url)
	for n := range 20 { // the driver is not always the quicker one
		s := content.SessionID(fmt.Sprint("s", n))
		write := func(head journal.Head, evs ...events.Event) (journal.Head, error) {
			return cell.Journal().Append(t.Context(), head, events.Entry{
				Session: s, Cause: fmt.Sprint("c", head.Seq), At: content.TimeOf(time.Now()), Epoch: 1, Events: evs,
			})
		}
		head, err := write(journal.Head{}, events.DriverClaimed{Epoch: 1, Node: "n"}, events.RunStarted{Config: events.Config{Model: "demo"}})
		if err != nil {
			t.Fatal(err)
		}
		leave := sync.OnceFunc(func() { _, _ = write(head, events.Parked{}) }) // or it was deleted by then
		sub, err := nc.Subscribe("$JS.API.>", func(m *nats.Msg) {
			if strings.Contains(m.Subject, "TURNLOG_INBOX") {
				leave()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := succeed(t, url, "sessions", "rm", string(s)); !strings.HasPrefix(got, string(s)+" was deleted at ") {
			t.Errorf("sessions rm prints %q", got)
		}
		_ = sub.Unsubscribe()
	}
}

func TestGCDeletesOnlyWhatTheFlagsSelect(t *testing.T) {
	t.Parallel()
	cfg := node()
	cfg.Idle = 0 // the default: gc deletes what is parked
	url := cellOf(t, cfg)
	succeed(t, url, "run", "--session", "s", "--model", scripted(t, echo), strings.Repeat("large ", 20_000))
	awaitEvents(t, url, "s", events.KindParked, 1) // until then the session may change between a look and the deletion
	gc := func(args ...string) (r gcReport) {
		t.Helper()
		if err := json.Unmarshal([]byte(succeed(t, url, append([]string{"gc", "-o", "json"}, args...)...)), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := gc(); !r.DryRun || r.Held.Sessions != 1 || r.Held.Bytes < 100_000 || len(r.Sessions) != 0 || r.Blobs.Checked == 0 {
		t.Errorf("gc = %+v", r)
	}
	if r := gc("--older-than", "1h", "--keep-bytes", "0", "--delete"); len(r.Sessions) != 0 {
		t.Errorf("gc of a session that is neither old nor idle = %+v", r.Sessions)
	}
	for _, deletes := range []bool{false, true} {
		args := []string{"--older-than", "1ns"}
		if deletes {
			args = append(args, "--delete")
		}
		r := gc(args...)
		if len(r.Sessions) != 1 || r.Sessions[0].Kept != "" || r.Sessions[0].Why != "not changed for 1ns" || r.DryRun == deletes {
			t.Errorf("gc %v = %+v", args, r)
		}
		show := succeed(t, url, "sessions", "show", "s")
		if gone := strings.HasPrefix(show, "session s expired and was deleted at "); gone != deletes {
			t.Errorf("after gc %v: %s", args, show)
		}
	}
	if r := gc("--older-than", "1ns", "--delete"); len(r.Sessions) != 0 || r.Held.Tombstones != 1 || r.Blobs.Young == 0 {
		t.Errorf("the next gc = %+v", r)
	}
	for _, bad := range [][]string{{"--older-than", "3x"}, {"--older-than", "-1h"}, {"--keep-bytes", "1q"}, {"--keep-bytes", "-1"}, {"--idle", "0"}, {"--grace", "1s"}, {"x"}} {
		p := at(t, url, append([]string{"gc"}, bad...)...)
		if code := p.end(t); code != cli.CodeUsage {
			t.Errorf("gc %v exits with %d: %s", bad, code, p.err)
		}
	}
}
