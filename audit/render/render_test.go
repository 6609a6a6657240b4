package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/internal/testing/frozen"
	"github.com/turnlog/turnlog/internal/testing/golden"
)

var update = golden.Flag()

// matches compares got with a file of testdata.
func matches(t *testing.T, name, got string) {
	t.Helper()
	golden.Check(t, *update, filepath.Join("testdata", name), got)
}

// samples returns an event of every kind.
func samples(t *testing.T) (out []events.Event) {
	t.Helper()
	all := frozen.Events(t)
	for _, k := range events.Kinds() {
		out = append(out, all[string(k)]...)
	}
	return out
}

func record(evs ...events.Event) journal.Record {
	e := events.Entry{
		Version: 1, Session: "s-42", Seq: 7, Cause: "c-7", At: 1_700_000_000_123_456_789, Epoch: 1,
		Cursors: []events.Cursor{{Lane: events.LaneAsk, Seq: 3}}, Events: evs,
	}
	return journal.Record{Head: journal.Head{Seq: 7}, Entry: e}
}

func TestEveryKindHasItsLine(t *testing.T) {
	t.Parallel()
	all := samples(t)
	for _, ev := range all {
		if (Style{}).detail(ev) == "" && ev != events.Event(events.Parked{}) { // which has nothing to show here
			t.Errorf("%T has no content: detail.go needs a case", ev)
		}
	}
	var b strings.Builder
	if err := NewPrinter(&b, Style{}, false).Entry(record(all...)); err != nil {
		t.Fatal(err)
	}
	matches(t, "kinds.txt", b.String())
}

func TestSendersAreClaimsUnlessTheServerVerifiedThem(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := NewPrinter(&b, Style{}, false).Entry(record(
		events.RunStarted{By: "ada"}, events.InputQueued{Origin: events.FromHost, By: "ada", User: "ada"}, events.ToolDetached{Call: "c1", User: "ada"},
		events.ApprovalResolved{Approval: "g1", Call: "c1", Outcome: events.Approved, By: "bob", User: "ada"},
		events.ToolsAllowed{Grant: "grant-1", Tools: []string{"*"}, By: "x", User: "ada"},
		events.DeadLetterSettled{Call: "c1", Outcome: events.DeadDropped, User: "ada"},
		events.CancelRequested{Scope: "turn", By: "ada", User: "ada"}, events.SessionClosed{Reason: "done", By: "ada (verified)"},
	)); err != nil {
		t.Fatal(err)
	}
	matches(t, "senders.txt", b.String())
}

func TestEveryLineCanNameItsSession(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	p := NewPrinter(&b, Style{}, true)
	if err := p.Entry(record(events.Parked{}, events.SessionClosed{Reason: "done"})); err != nil {
		t.Fatal(err)
	}
	if err := p.Live("s-43", events.ToolProgress{Call: "c1", Text: "half way", Share: 0.5}); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"s-42     7  2023-11-14T22:13:20.123Z  parked",
		"s-42                                  session_closed        done",
		"s-43     ~                            tool_progress         c1, 50%: half way",
		"",
	}, "\n")
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestColorsDoNotChangeTheText(t *testing.T) {
	t.Parallel()
	var colored, without strings.Builder
	if err := NewPrinter(&colored, Style{Color: true}, true).Entry(record(samples(t)...)); err != nil {
		t.Fatal(err)
	}
	if err := NewPrinter(&without, Style{}, true).Entry(record(samples(t)...)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(colored.String(), "\x1b[") {
		t.Fatal("no colors are used")
	}
	stripped := colored.String()
	for _, c := range []string{"0", "1", "2", "31", "32", "33", "34", "36"} {
		stripped = strings.ReplaceAll(stripped, "\x1b["+c+"m", "")
	}
	if diff := cmp.Diff(without.String(), stripped); diff != "" {
		t.Errorf("colors change the text (-without +with):\n%s", diff)
	}
}

func TestContentIsSafeForATerminal(t *testing.T) {
	t.Parallel()
	nasty := "\x1b]0;title\a a\rb \u202egnp.exe \u009b31m \xff \u2028 \x00 é🙂"
	for name, style := range map[string]Style{"clipped": {}, "full": {Full: true}} {
		var b strings.Builder
		p := NewPrinter(&b, style, true)
		item := content.NewItem(content.User, content.TextPart(nasty),
			content.CallPart(content.ToolCall{ID: content.CallID(nasty), Name: nasty, Input: []byte(nasty)}))
		if err := p.Entry(record(
			events.InputQueued{Items: []content.Item{item}, Origin: events.Origin(nasty)},
			events.Warning{Code: nasty, Message: nasty, Call: content.CallID(nasty)},
		)); err != nil {
			t.Fatal(err)
		}
		if err := Transcript(&b, style, []content.Item{item, content.NewItem(content.Kind(nasty),
			content.ResultPart(content.NewResult("c", nasty, content.Status(nasty), nasty)))}, map[content.CallID]json.RawMessage{content.CallID(nasty): []byte(nasty)}); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		for _, bad := range []string{"\x1b", "\a", "\r", "\u202e", "\u009b", "\xff", "\u2028", "\x00"} {
			if strings.Contains(strings.ToValidUTF8(got, "\xff"), bad) {
				t.Errorf("%s: %q is printed", name, bad)
			}
		}
		for _, good := range []string{`\x1b]0;title\a`, `\u202egnp.exe`, "é🙂"} {
			if !strings.Contains(got, good) {
				t.Errorf("%s: %s is missing from:\n%s", name, good, got)
			}
		}
	}
}

func TestLongTextsAreClippedWithANote(t *testing.T) {
	t.Parallel()
	short := strings.Repeat("é", 120)
	if got := (Style{}).Line(short); got != short {
		t.Errorf("a line of 120 is clipped: %s", got)
	}
	long := strings.Repeat("é ", 5000)
	if got := (Style{}).Line(long); len([]rune(got)) > 150 || !strings.HasSuffix(got, " … 10000 characters") {
		t.Errorf("Line = %s", got)
	}
	if got := (Style{Full: true}).Line(long); got != strings.TrimSpace(long) {
		t.Errorf("a full line has %d bytes", len(got))
	}
	lines := strings.Repeat("line\n", 100)
	got := Style{}.block(lines, "  ")
	if got := (Style{}).block(strings.Repeat("x\n", 25), ""); !strings.HasSuffix(got, "… 1 more line\n") {
		t.Errorf("one more is %q", got)
	}
	if n := strings.Count(got, "\n"); n != 25 || !strings.HasSuffix(got, "  … 76 more lines\n") {
		t.Errorf("the block has %d lines:\n%s", n, got)
	}
	if got := (Style{Full: true}).block(lines, ""); got != lines {
		t.Errorf("a full block differs:\n%s", got)
	}
	if got := (Style{}).block(strings.Repeat("x", 5000), ""); !strings.HasSuffix(got, " … 3000 more characters\n") {
		t.Errorf("the block is %s", got)
	}
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	call := content.ToolCall{ID: "c1", Place: "t1-r1-c1", Name: "fs_read_file", Input: []byte(`{ "path": "main.go" }`)}
	assistant := content.NewItem(content.Assistant,
		content.Part{Kind: content.ReasoningKind, Text: "It asks for a file."}, content.TextPart("I will look.\nOne moment."), content.CallPart(call))
	assistant.FinishReason, assistant.Usage = content.ToolCalls, &content.Usage{InputTokens: 120, OutputTokens: 30}
	items := []content.Item{
		content.SystemText("Be brief."),
		content.UserText("What is in main.go?"),
		assistant,
		content.NewItem(content.Tool, content.ResultPart(content.NewResult("c1", "fs_read_file", content.StatusOK, "package main\n\nfunc main() {}\n"))),
		content.NewItem(content.Tool, content.ResultPart(content.NewResult("c2", "shell_exec", content.StatusExpired, "Approval expired"))),
		content.NewItem(content.User, content.Part{Kind: content.FileKind, Name: "a.png", Media: &content.Media{MIME: "image/png", Bytes: make([]byte, 12)}},
			content.StructuredPart([]byte(`{"a": 1}`))),
		content.NewItem(content.Notification, content.TextPart("Background tool call c3 completed: done")),
	}
	for i := range items {
		items[i].CreatedAt = 1_700_000_000_123_456_789
	}
	items[0].CreatedAt = 0
	var b strings.Builder
	if err := Transcript(&b, Style{}, items, map[content.CallID]json.RawMessage{"c1": []byte(`{ "path": "go.mod" }`)}); err != nil {
		t.Fatal(err)
	}
	matches(t, "transcript.txt", b.String())
}

// fromTheFuture is an entry with a kind that this release does not know.
func fromTheFuture(t *testing.T) journal.Record {
	t.Helper()
	payload, err := record(events.Parked{}).Entry.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var fields []any
	if err := msgpack.Unmarshal(payload, &fields); err != nil {
		t.Fatal(err)
	}
	fields[len(fields)-1] = []any{
		"parked",
		map[string]any{},
		"moon_landed",
		map[string]any{"crew": 3, "data": []byte(`{"x":1}`), "name": []byte("eagle"), "sum": []byte{0xff, 1}},
	}
	if payload, err = msgpack.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	e, err := events.Decode(payload)
	if !errors.Is(err, events.ErrUnknownKind) {
		t.Fatalf("Decode = %v, want ErrUnknownKind", err)
	}
	e.Events = nil
	return journal.Record{Head: journal.Head{Seq: 7}, Entry: e, Payload: payload, Err: err}
}

func TestEntriesOfLaterReleasesAreShownRaw(t *testing.T) {
	t.Parallel()
	rec := fromTheFuture(t)
	var b strings.Builder
	if err := NewPrinter(&b, Style{}, false).Entry(rec); err != nil {
		t.Fatal(err)
	}
	want := "    7  2023-11-14T22:13:20.123Z  parked                raw {}\n" +
		strings.Repeat(" ", 33) + `moon_landed           raw {"crew":3,"data":{"x":1},"name":"eagle","sum":"ff01"}` + "\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestSealedEntriesAreShownByTheirKinds(t *testing.T) {
	t.Parallel()
	_, payload, head, err := journal.Link(journal.Head{}, events.Entry{
		Session: "s", Cause: "c", Sealing: events.NewSealing(seal.New()),
		Events: []events.Event{events.DriverClaimed{Epoch: 1, Node: "n1"}, events.Warning{Message: "content"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := events.Decode(payload)
	var b strings.Builder
	if err := NewPrinter(&b, Style{}, false).Entry(journal.Record{Head: head, Entry: e, Payload: payload, Err: err}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "driver_claimed        epoch 1, node n1\n") || !strings.Contains(got, "warning               sealed\n") {
		t.Errorf("lines:\n%s", got)
	}
}

func TestUndecodableBytesAreShownAsBytes(t *testing.T) {
	t.Parallel()
	for _, payload := range [][]byte{nil, {0xc1}, {0x91, 0x01}, {0x91, 0x90}, []byte("hello")} {
		rec := record()
		rec.Err, rec.Payload = events.ErrBadEntry, payload
		var b strings.Builder
		if err := NewPrinter(&b, Style{}, false).Entry(rec); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "unreadable            raw") {
			t.Errorf("%x is shown as %s", payload, b.String())
		}
	}
}

func TestUnreadableEntriesShowTheReason(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"newer_format          format version 9": &events.FormatError{Version: 9},
		"damaged               bad chain":        fmt.Errorf("bad chain: %w", journal.ErrDamaged),
	} {
		rec := record()
		rec.Err, rec.Payload = err, []byte{0xc1}
		var b strings.Builder
		if err := NewPrinter(&b, Style{}, false).Entry(rec); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%v is shown as %s, want %q", err, b.String(), want)
		}
	}
}

func TestLiveJSON(t *testing.T) {
	t.Parallel()
	raw, err := LiveJSON("s-42", events.ToolProgress{Call: "c1", Text: "half"})
	if err != nil || string(raw) != `{"session":"s-42","live":{"kind":"tool_progress","call":"c1","text":"half"}}` {
		t.Errorf("LiveJSON = %s, %v", raw, err)
	}
}

// full is a writer that is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteErrorsAreReturned(t *testing.T) {
	t.Parallel()
	if err := NewPrinter(full{}, Style{}, false).Entry(record(events.Parked{})); err == nil {
		t.Error("Entry = nil")
	}
	if err := Transcript(full{}, Style{}, []content.Item{content.UserText("x")}, nil); err == nil {
		t.Error("Transcript = nil")
	}
}
