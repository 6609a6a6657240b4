package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

func TestWholeJournalIsVerified(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	code, out, errs := d.observe("verify", "s-42")
	if code != 0 || errs != "" {
		t.Fatalf("verify = %d %q %q", code, out, errs)
	}
	matches(t, "verify.txt", out)

	_, out, _ = d.observe("verify", "s-42", "-o", "json")
	var report struct {
		Level   verdict.Level
		Entries int
		Faults  []any
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Level != verdict.Chain || report.Entries != 7 || report.Faults == nil {
		t.Errorf("verify -o json = %s, %v", out, err)
	}
}

func TestBrokenInvariantIsNamed(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42").turn()
	w.append(events.Entry{Session: "s-42", Cause: "cmd-7", At: w.state.At, Epoch: 1, Events: []events.Event{events.Warning{Code: "x"}}})
	code, out, errs := d.observe("verify", "s-42")
	if code != 1 || !strings.HasPrefix(errs, "observer: session s-42: entry 8, forged (cause-once): ") || strings.Count(errs, "\n") != 1 {
		t.Errorf("verify = %d %q", code, errs)
	}
	if !strings.HasPrefix(out, "broken session s-42 is not whole.\n   entry 8, forged (cause-once): ") || strings.Contains(out, "is whole") {
		t.Errorf("verify prints\n%s", out)
	}
	code, out, _ = d.observe("verify", "s-42", "-o", "json")
	if code != 1 || !strings.Contains(out, `"level": "none"`) || !strings.Contains(out, `"kind": "forged"`) || !strings.Contains(out, `"invariant": "cause-once"`) {
		t.Errorf("verify -o json = %d %s", code, out)
	}
}

func TestForgedEntryIsNamed(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	if _, err := d.nc.RequestWithContext(t.Context(), "turnlog.journal.s-42", []byte("not an entry")); err != nil {
		t.Fatal(err)
	}
	code, out, errs := d.observe("verify", "s-42")
	if code != 1 || !strings.Contains(errs, "journal damaged") || strings.Contains(out, "is whole") || strings.Count(errs, "\n") != 1 {
		t.Errorf("verify = %d %q %q", code, out, errs)
	}
	if code, _, errs := d.observe("events", "s-42"); code != 1 || !strings.Contains(errs, "journal damaged") {
		t.Errorf("events = %d %q", code, errs)
	}
}

// export writes a session's journal to a file.
func (d *deployment) export(s string) string {
	d.t.Helper()
	code, out, errs := d.observe("export", s)
	if code != 0 || errs != "" {
		d.t.Fatalf("export = %d %q", code, errs)
	}
	path := filepath.Join(d.t.TempDir(), s+".jsonl")
	if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

func TestExportVerifiesWithoutAServer(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	path := d.export("s-42")
	_, live, _ := d.observe("verify", "s-42")
	live = regexp.MustCompile(`(?m)^   only a warning: entry 1, .* from the time at which the store got it\n`).ReplaceAllString(live, "") // a file has no such times
	code, out, errs := observe(t.Context(), nil, "verify", "--file", path)
	if code != 0 || errs != "" || strings.ReplaceAll(out, path, "session s-42") != live {
		t.Errorf("verify --file = %d %q\n%s", code, errs, out)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if code, out, errs := observe(t.Context(), f, "verify", "--file", "-"); code != 0 || !strings.Contains(out, "standard input is whole") {
		t.Errorf("verify --file - = %d %q %q", code, out, errs)
	}
}

func TestChangedExportIsNamed(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42").turn()
	path := d.export("s-42")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for what, c := range map[string]struct{ text, want string }{
		"a word":      {strings.Replace(string(whole), "main.go", "evil.go", 1), "line 4, entry 3, tampered: events:"},
		"a line less": {strings.Join(append(lines[:3:3], lines[4:]...), ""), "line 4, entry 4, missing (single-writer): entry 3 is expected here"},
		"cut off":     {string(whole[:len(whole)-30]), "line 8, truncated: the line is cut off"},
		"no export":   {"hello\n", "line 1, unreadable: the first line does not name the format"},
		"empty":       {"", "line 1, truncated: the export is empty"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := observe(t.Context(), nil, "verify", "--file", path)
		if code != 1 || !strings.Contains(errs, c.want) || !strings.HasPrefix(errs, "observer: "+path+": ") || strings.Contains(out, "is whole") {
			t.Errorf("%s: verify = %d %q %q, want %q", what, code, out, errs, c.want)
		}
	}
}

func TestEntriesOfALaterFormatAreShownRaw(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42").turn()
	forge := func(seq string, payload []byte, header nats.Header) {
		t.Helper()
		for key, value := range map[string]string{"Turnlog-Seq": seq, "Turnlog-Hash": events.HashOf(payload).String()} {
			if header.Get(key) == "" {
				header.Set(key, value)
			}
		}
		msg := &nats.Msg{Subject: "turnlog.journal.s-42", Data: payload, Header: header}
		if _, err := d.nc.RequestMsgWithContext(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	_, payload, _, err := journal.Link(w.head, events.Entry{
		Session: "s-42", Cause: "cmd-9", At: w.state.At, Epoch: 1, Events: []events.Event{events.SessionClosed{Reason: "done"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	payload[1] = events.VersionSealed + 1
	forge("8", payload, nats.Header{"Turnlog-Prev": {w.head.Hash.String()}})
	code, out, errs := d.observe("events", "s-42")
	const says = "format version 3 is newer than this release, which reads up to 2"
	if code != 0 || errs != "" || !strings.Contains(out, says) || !strings.Contains(out, "raw") || strings.Contains(out, "damaged") {
		t.Errorf("events = %d %q\n%s", code, errs, out)
	}
	if code, _, errs := d.observe("transcript", "s-42"); code != 1 || !strings.Contains(errs, says) {
		t.Errorf("transcript = %d %q", code, errs)
	}

	shown, stop := d.tail("--from", "1")
	lines, stopLines := d.tail("--from", "1", "-o", "jsonl")
	forge("9", []byte("hello"), nats.Header{"Turnlog-Hash": {"none"}})
	d.session("s-43")
	for _, s := range []*clitest.Screen{shown, lines} {
		s.Await(t, "s-43")
	}
	stop()
	stopLines()
	if out := shown.String(); !regexp.MustCompile(`(?m)^s-42     9  20\d\d-\S+  damaged +journal damaged: s-42, entry 9 `).MatchString(out) ||
		!strings.Contains(out, says) {
		t.Errorf("tail shows\n%s", out)
	}
	if out := lines.String(); !regexp.MustCompile(`"seq":9,"session":"s-42",.*"at":"20\d\d-.*"unread":"journal damaged`).MatchString(out) {
		t.Errorf("tail -o jsonl shows\n%s", out)
	}
}

func TestEntriesOfALaterReleaseAreShownRaw(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42").turn()
	_, payload, head, err := journal.Link(w.head, events.Entry{
		Session: "s-42", Cause: "cmd-9", At: w.state.At, Epoch: 1, Events: []events.Event{events.SessionClosed{Reason: "done"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var fields []any
	if err := msgpack.Unmarshal(payload, &fields); err != nil {
		t.Fatal(err)
	}
	fields[len(fields)-1] = []any{"moon_landed", map[string]any{"crew": 3}}
	if payload, err = msgpack.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	msg := &nats.Msg{Subject: "turnlog.journal.s-42", Data: payload, Header: nats.Header{
		"Turnlog-Seq": {"8"}, "Turnlog-Hash": {events.HashOf(payload).String()}, "Turnlog-Prev": {w.head.Hash.String()},
	}}
	if _, err := d.nc.RequestMsgWithContext(t.Context(), msg); err != nil || head.Seq != 8 {
		t.Fatalf("%v, entry %d", err, head.Seq)
	}
	code, out, errs := d.observe("events", "s-42")
	if code != 0 || errs != "" || !strings.HasSuffix(out, `moon_landed           raw {"crew":3}`+"\n") {
		t.Errorf("events = %d %q\n%s", code, errs, out)
	}
	if _, out, _ := d.observe("events", "s-42", "-o", "jsonl"); !strings.Contains(out, `"unread":"entry s-42/8: unknown event kind \"moon_landed\""`) {
		t.Errorf("events -o jsonl:\n%s", out)
	}
	if code, _, errs := d.observe("transcript", "s-42"); code != 1 || !strings.Contains(errs, `unknown event kind "moon_landed"`) {
		t.Errorf("transcript = %d %q", code, errs)
	}
	if code, _, errs := d.observe("verify", "s-42"); code != cli.CodeUnjudged || !strings.Contains(errs, "entry 8, newer (whole-entries)") {
		t.Errorf("verify = %d %q", code, errs)
	}
}
