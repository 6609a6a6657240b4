package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream/admin"
)

func TestHeadsRevealATruncatedJournal(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	d.session("s-43").turn()
	code, heads, errs := d.observe("heads")
	if code != 0 || errs != "" || strings.Count(heads, "\n") != 2 || !strings.HasPrefix(heads, `{"session":"s-42","seq":7,"hash":"`) {
		t.Fatalf("heads = %d %q %q", code, heads, errs)
	}
	file := filepath.Join(t.TempDir(), "heads.jsonl")
	if err := os.WriteFile(file, []byte(heads), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := d.observe("verify", "--anchor", file); code != 0 || strings.Count(out, "is whole") != 2 || strings.Count(out, "anchors  1 earlier head is held; 0 entries after the last\n") != 2 {
		t.Errorf("verify = %d %q %q", code, out, errs)
	}
	last, err := d.cell.Journal().Last(t.Context(), "s-42")
	if err != nil {
		t.Fatal(err)
	}
	drop := fmt.Appendf(nil, `{"seq":%d}`, last.Guard)
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	if answer, err := d.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.DELETE.TURNLOG_JOURNAL", drop); err != nil || !strings.Contains(string(answer.Data), `"success":true`) {
		t.Fatal(answer, err)
	}
	if code, out, _ := d.observe("verify", "s-42"); code != 0 || !strings.Contains(out, "is whole") {
		t.Errorf("verify without anchors = %d %q: nothing shows that its end is missing", code, out)
	}
	code, _, errs = d.observe("verify", "--anchor", file)
	if want := "observer: session s-42: entry 7, truncated (anchors-held): it existed"; code != 1 || !strings.HasPrefix(errs, want) || strings.Contains(errs, "s-43") {
		t.Errorf("verify = %d %q, want %q", code, errs, want)
	}

	now, err := d.cell.Journal().Last(t.Context(), "s-43")
	if err != nil {
		t.Fatal(err)
	}
	d.remove(now)
	code, out, errs := d.observe("verify", "s-43")
	if code != cli.CodeGone || !strings.HasPrefix(out, "gone session s-43 was deleted at ") || !strings.Contains(errs, " by ada (claimed) (asked to): 7 entries, last hash ") {
		t.Errorf("verify of a deleted session = %d %q %q", code, out, errs)
	}
	code, out, errs = d.observe("verify", "s-43", "--anchor", file)
	if code != cli.CodeUnjudged || !strings.HasPrefix(out, "unjudged session s-43 ") || !strings.Contains(errs, "entry 7, deleted (anchors-held)") || strings.Contains(out, "held;") {
		t.Errorf("verify of a deleted session = %d %q %q", code, out, errs)
	}
	code, out, _ = d.observe("events", "s-43")
	if code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, "session_deleted       deleted, by ada (claimed): asked to") {
		t.Errorf("events of a deleted session = %d %q", code, out)
	}
	if code, _, errs := d.observe("transcript", "s-43"); code != 1 || !strings.HasPrefix(errs, "observer: session s-43 was deleted at ") {
		t.Errorf("transcript of a deleted session = %d %q", code, errs)
	}
	code, out, _ = d.observe("heads") // a restore of an older backup needs the tombstone
	if code != 0 || !strings.Contains(out, `{"session":"s-43","seq":8,`) || !strings.Contains(out, `"deletion":{"by":"ada","reason":"asked to",`) {
		t.Errorf("heads = %d %q", code, out)
	}
	for _, bad := range []string{"nowhere", os.DevNull} {
		if code, _, errs := d.observe("verify", "--anchor", bad); code != cli.CodeUsage || strings.Count(errs, "\n") != 1 {
			t.Errorf("verify %v = %d %q", bad, code, errs)
		}
	}
}

// remove deletes a session as "turnlog sessions rm" does.
func (d *deployment) remove(last journal.Record) {
	d.t.Helper()
	k := admin.Of(d.cell)
	if _, err := k.Delete(d.t.Context(), last, events.SessionDeleted{By: "ada", Reason: "asked to"}); err != nil {
		d.t.Fatal(err)
	}
	if _, err := k.Clear(d.t.Context(), last.Entry.Session); err != nil {
		d.t.Fatal(err)
	}
}

func TestAnchorsOfOtherSessionsProveNothing(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	ghost := filepath.Join(t.TempDir(), "heads.jsonl")
	line := `{"session":"ghost","seq":3,"hash":"` + strings.Repeat("ab", 32) + `","at":"2026-11-21T21:55:42Z"}` + "\n"
	if err := os.WriteFile(ghost, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := d.observe("verify", "s-42", "--anchor", ghost)
	if want := "observer: session s-42: no anchor or proof has one of its heads, so it may have been truncated\n"; code != cli.CodeBelow || errs != want || !strings.Contains(out, "is whole") {
		t.Errorf("verify with anchors of another session = %d %q %q, want %q", code, out, errs, want)
	}
	code, out, errs = d.observe("verify", "--anchor", ghost)
	if !strings.Contains(out, "session  ghost\n") || !strings.Contains(errs, "entry 3, missing (anchors-held)") || !strings.Contains(errs, "the journal is gone and has no tombstone") || code != 1 {
		t.Errorf("verify of a journal that is gone = %d %q %q", code, out, errs)
	}
}

func TestAllSessionsAreVerified(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	for _, s := range []content.SessionID{"s-41", "s-42", "s-43"} {
		d.session(s).turn()
	}
	code, out, errs := d.observe("verify", "--all")
	if code != 0 || errs != "" || strings.Count(out, "is whole") != 3 || strings.Index(out, "s-41") > strings.Index(out, "s-43") {
		t.Errorf("verify --all = %d %q\n%s", code, errs, out)
	}
	if _, err := d.nc.RequestWithContext(t.Context(), "turnlog.journal.s-42", []byte("not an entry")); err != nil {
		t.Fatal(err)
	}
	code, out, errs = d.observe("verify", "--all")
	if code != 1 || !strings.Contains(errs, "session s-42: entry 8, tampered") || strings.Count(out, "is whole") != 2 {
		t.Errorf("verify --all = %d %q\n%s", code, errs, out)
	}
	code, out, errs = d.observe("heads")
	if code != 1 || strings.Count(out, "\n") != 2 || !strings.Contains(out, `"s-43"`) || !strings.Contains(errs, "s-42") {
		t.Errorf("heads = %d %q\n%s", code, errs, out)
	}
	if code, _, errs := d.observe("verify", "--all", "s-42"); code != cli.CodeUsage {
		t.Errorf("verify --all s-42 = %d %q", code, errs)
	}
}

func TestFalseHeadersAndEntriesAfterATombstoneAreNamed(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	send := func(s string, head journal.Head, e events.Entry, edit func(nats.Header)) journal.Head {
		t.Helper()
		e, payload, next, err := journal.Link(head, e)
		if err != nil {
			t.Fatal(err)
		}
		msg := &nats.Msg{Subject: "turnlog.journal." + s, Data: payload, Header: nats.Header{
			"Turnlog-Seq": {strconv.FormatUint(e.Seq, 10)}, "Turnlog-Hash": {next.Hash.String()}, "Turnlog-Prev": {e.Prev.String()},
			"Turnlog-Kinds": {"warning"},
		}}
		if edit != nil {
			edit(msg.Header)
		}
		if _, err := d.nc.RequestMsgWithContext(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		return next
	}
	warning := func(s string, w *writer) events.Entry {
		return events.Entry{Session: content.SessionID(s), Cause: "cmd-9", At: w.state.At, Epoch: 1, Events: []events.Event{events.Warning{Code: "x"}}}
	}
	for name, value := range map[string]string{"Kinds": "approval_resolved", "Seq": "9", "Prev": strings.Repeat("0", 64), "Hash": strings.Repeat("0", 64)} {
		s := "s-" + strings.ToLower(name)
		w := d.session(content.SessionID(s))
		send(s, w.head, warning(s, w), func(h nats.Header) { h.Set("Turnlog-"+name, value) })
		if code, _, errs := d.observe("verify", s); code != 1 || !strings.Contains(errs, "entry 3, tampered") || !strings.Contains(errs, "header") {
			t.Errorf("a false header %s: verify = %d %q", name, code, errs)
		}
	}
	w := d.session("s-gone")
	tombstone := warning("s-gone", w)
	tombstone.Events = []events.Event{events.SessionDeleted{By: "ada"}}
	head := send("s-gone", w.head, tombstone, func(h nats.Header) { h.Set("Turnlog-Kinds", "session_deleted") })
	if code, _, errs := d.observe("verify", "s-gone"); code != cli.CodeGone {
		t.Errorf("a deleted session: verify = %d %q", code, errs)
	}
	send("s-gone", head, warning("s-gone", w), nil)
	if code, _, errs := d.observe("verify", "s-gone"); code != 1 || !strings.Contains(errs, "follows the tombstone") {
		t.Errorf("an entry after the tombstone: verify = %d %q", code, errs)
	}
}

// The session was deleted, and its tombstone removed, after the deployment listed it.
func TestASessionThatIsGoneWhenItsTurnComesIsAState(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	for _, listed := range []bool{true, false} {
		v := verifier{require: verdict.Chain}
		if listed {
			v.listed = []content.SessionID{"s-1"}
		}
		j := v.judge(t.Context(), &cli.Cell{Cell: d.cell, Conn: d.nc}, "s-1")
		e, coded := errors.AsType[*cli.ExitError](j.outcome(&v))
		if gone := coded && e.Code == cli.CodeGone && j.err == nil; gone != listed {
			t.Errorf("listed %t: %v, %v", listed, j.outcome(&v), j.err)
		}
	}
}
