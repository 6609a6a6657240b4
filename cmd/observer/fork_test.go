package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/session"
)

// TestTheHistoryOfAForkIsThatOfItsOrigin verifies forks that are what they say, and some that are not, in a deployment
// and in files.
func TestTheHistoryOfAForkIsThatOfItsOrigin(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("plan").turn()
	d.session("other").turn()
	origin, err := engine.Reader{Journal: d.cell.Journal()}.ReadTo(t.Context(), "plan", 6)
	if err != nil {
		t.Fatal(err)
	}
	from := events.EntryRef{Session: "plan", Seq: 6, Hash: origin.Head.Hash}
	fork, err := session.Fork(commands.OpenSession{From: from.String()}, origin.State, origin.Head)
	if err != nil || len(fork.Transcript) < 3 {
		t.Fatalf("the fork begins with %d items, %v", len(fork.Transcript), err)
	}
	prompted, changed, shorter, elsewhere, later, gone := fork, fork, fork, fork, fork, fork
	prompted.Transcript = append([]content.Item{content.SystemText("You are another agent.")}, fork.Transcript[1:]...)
	changed.Transcript = slices.Clone(fork.Transcript)
	changed.Transcript[1].Parts = []content.Part{content.TextPart("What is in secret.go?")}
	shorter.Transcript = fork.Transcript[:1]
	shorter.Resume = false
	elsewhere.From = events.EntryRef{Session: "plan", Seq: 6, Hash: events.HashOf([]byte("x"))}.String()
	later.From = events.EntryRef{Session: "plan", Seq: 99, Hash: from.Hash}.String()
	gone.From = events.EntryRef{Session: "nosuch", Seq: 6, Hash: from.Hash}.String()
	for name, tc := range map[string]struct {
		open      commands.OpenSession
		kind      verdict.Kind
		unchecked bool
	}{
		"true":      {open: fork},
		"prompted":  {open: prompted},
		"changed":   {changed, verdict.Forged, false},
		"shorter":   {shorter, verdict.Forged, false},
		"elsewhere": {elsewhere, verdict.Replaced, false},
		"later":     {later, verdict.Forged, false},
		"gone":      {open: gone, unchecked: true},
	} {
		d.open(content.SessionID(name), tc.open)
		check := func(where string, unchecked bool, args ...string) {
			t.Helper()
			code, out, _ := d.observe(append([]string{"verify", "-o", "json"}, args...)...)
			code, faults, notProved := judged(t, code, out)
			if bad := tc.kind != "" && !unchecked; bad && (code != 1 || len(faults) != 1 || faults[0].Kind != tc.kind || faults[0].Seq != 2) || !bad && code != 0 {
				t.Errorf("%s, %s: exit code %d, %v; want %q", name, where, code, faults, tc.kind)
			}
			if got := strings.Contains(notProved, "history: that it began with what another session had"); got != unchecked {
				t.Errorf("%s, %s: not proved are %s", name, where, notProved)
			}
		}
		check("deployment", tc.unchecked, name)
		file := d.export(name)
		check("file", true, "--file", file)
		if name != "gone" {
			check("origin", false, "--file", file, "--origin", d.export("plan"))
		}
		check("other origin", true, "--file", file, "--origin", d.export("other"))
	}
}
