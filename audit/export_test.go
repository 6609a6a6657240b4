package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

func exported(t testing.TB, records []journal.Record) string {
	t.Helper()
	var b bytes.Buffer
	if err := Export(&b, journal.All(records)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func imported(r io.Reader) ([]journal.Record, error) {
	var out []journal.Record
	for rec, err := range Import(r) {
		if err != nil {
			return out, err
		}
		out = append(out, rec)
	}
	return out, nil
}

// noLines ignores where records were read.
func noLines() cmp.Option { return cmpopts.IgnoreFields(journal.Record{}, "Line") }

func TestImportReturnsTheExportedRecords(t *testing.T) {
	t.Parallel()
	for name, story := range stories() {
		records := story(t).records
		text := exported(t, records)
		back, err := imported(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(records, back, noLines()); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if again := exported(t, records); again != text {
			t.Errorf("%s: a second export differs", name)
		}
	}
}

func TestImportReadsLinesInPieces(t *testing.T) {
	t.Parallel()
	records := tools().records(t)
	back, err := imported(iotest.OneByteReader(strings.NewReader(exported(t, records))))
	if diff := cmp.Diff(records, back, noLines()); err != nil || diff != "" {
		t.Errorf("%v; -want +got\n%s", err, diff)
	}
}

func TestExportedLinesHaveAReadableView(t *testing.T) {
	t.Parallel()
	lines := strings.Split(exported(t, tools().records(t)), "\n")
	if want := `{"format":"turnlog-journal","version":1,"session":"s-1"}`; lines[0] != want {
		t.Errorf("the first line is %s, want %s", lines[0], want)
	}
	var got struct {
		Seq     uint64
		Session string
		Prev    string
		Hash    string
		At      string
		Epoch   uint64
		Cause   string
		Kinds   []string
		Events  []map[string]any
		Payload []byte
	}
	d := json.NewDecoder(strings.NewReader(lines[3]))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := tools().records(t)[2]
	if got.Seq != 3 || got.Session != "s-1" || got.Cause != "cmd-3" || got.Epoch != 1 || got.At != "1970-01-01T00:00:00.000000003Z" ||
		got.Hash != want.Hash.String() || got.Prev != want.Entry.Prev.String() || !bytes.Equal(got.Payload, want.Payload) ||
		!slices.Equal(got.Kinds, []string{"input_queued"}) || got.Events[0]["kind"] != "input_queued" || got.Events[0]["origin"] != "host" {
		t.Errorf("line 4 is %s", lines[3])
	}
}

func TestAChangedLineIsReported(t *testing.T) {
	t.Parallel()
	text := exported(t, tools().records(t))
	lines := strings.SplitAfter(text, "\n")
	edit := func(n int, from, to string) string {
		changed := slices.Clone(lines)
		changed[n-1] = strings.Replace(changed[n-1], from, to, 1)
		if changed[n-1] == lines[n-1] {
			panic("nothing was changed: " + from)
		}
		return strings.Join(changed, "")
	}
	hash := tools().records(t)[4].Hash.String()
	payload := strings.SplitAfter(lines[5], `"payload":"`)[1]
	for _, row := range []struct {
		text string
		says string
	}{
		{edit(6, `"tool_call_requested"`, `"tool_detached"`), "line 6, entry 5, tampered: kinds:"},
		{edit(6, `"finish_reason":"tool_call"`, `"finish_reason":"completed"`), "line 6, entry 5, tampered: events: the view of event 1, a reply_recorded"},
		{edit(6, `,{"kind":"tool_call_requested"`, `],"x":[{"kind":"tool_call_requested"`), "line 6, entry 5, tampered: events: the view has 2, the payload 4"},
		{edit(6, hash, strings.Repeat("0", 64)), "line 6, entry 5, tampered: hash:"},
		{edit(6, `"seq":5`, `"seq":6`), "line 6, entry 5, tampered: seq: the view has 6, the payload 5"},
		{edit(6, `"session":"s-1"`, `"session":"s-2"`), "line 6, entry 5, tampered: session:"},
		{edit(6, `"prev":"`, `"prev":"00`), "line 6, entry 5, tampered: prev: the view has 00"},
		{edit(6, `"at":"1970`, `"at":"1980`), "line 6, entry 5, tampered: at:"},
		{edit(6, `"epoch":1`, `"epoch":2`), "line 6, entry 5, tampered: epoch:"},
		{edit(6, `"cause":"cmd-5"`, `"cause":"cmd-6"`), "line 6, entry 5, tampered: cause:"},
		{edit(6, payload, "AAAA"+payload[4:]), "line 6, unreadable: the payload is not an entry"},
		{edit(6, `{"seq"`, `{{"seq"`), "line 6, entry 5, tampered: invalid character"},
		{edit(6, `"seq":5`, `"seq":5,"seq":5`), `line 6, entry 5, tampered: not strict JSON: the key "seq" occurs twice`},
		{edit(6, `"seq":5`, `"SEQ":9,"seq":5`), `line 6, entry 5, tampered: "SEQ": the view has this key, which no export has`},
		{edit(6, `"seq":5`, `"unread":"x","seq":5`), `line 6, entry 5, tampered: unread: `},
		{edit(6, `"cause":"cmd-5",`, ``), `line 6, entry 5, tampered: cause: the view lacks it`},
		{edit(6, `"round":1,`, `"round":1,"round":1,`), `line 6, entry 5, tampered: not strict JSON: the key "round" occurs twice`},
		{edit(6, `"round":1,`, `"Round":1,`), `line 6, entry 5, tampered: events: the view of event 1`},
		{edit(6, `"epoch":1`, `"epoch":1.0`), `line 6, entry 5, tampered: epoch: the view has 1.0`},
		{edit(6, `"payload":"`, `"payload":"\u0041`), "line 6, unreadable: "},
		{strings.Replace(text, "}\n", "} {}\n", 2), "line 1, unreadable: "},
		{edit(1, `"version":1`, `"version":1,"version":1`), "line 1, tampered: the first line: not strict JSON"},
		{edit(1, `"version":1`, `"version":1,"more":1`), "line 1, tampered: the first line has other members"},
		{edit(1, `"version"`, `"Version"`), "line 1, tampered: the first line has other members"},
		{lines[0], "line 2, truncated: it has no entries"},
		{edit(1, "s-1", "s-2"), `line 2, entry 1, foreign: session: the entry belongs to "s-1", the export to "s-2"`},
		{edit(1, `"version":1`, `"version":2`), "line 1, newer: version 2 of the format"},
		{edit(1, "turnlog-journal", "something"), `line 1, unreadable: the first line does not name the format "turnlog-journal"`},
		{"", "line 1, truncated: the export is empty"},
		{"\n\n", "line 3, truncated: the export is empty"},
		{"not JSON\n", "line 1, unreadable: the first line does not name"},
		{text[:len(text)-40], "line 11, truncated: the line is cut off"},
		{strings.Join(lines[:5], "") + lines[5][:30], "line 6, truncated: the line is cut off"},
	} {
		_, err := imported(strings.NewReader(row.text))
		if !errors.Is(err, ErrBadExport) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("Import = %v, want …%s…", err, row.says)
		}
	}
}

func TestAForgedLineBreaksTheChain(t *testing.T) {
	t.Parallel()
	records := tools().records(t)
	records[4] = forge(t, records[4], func(e *events.Entry) { e.Cause = "cmd-5b" })
	report, err := Verify(Import(strings.NewReader(exported(t, records))))
	if err != nil {
		t.Fatal(err)
	}
	if first, found := report.First(); !found || first.Seq != 6 || first.Invariant != singleWriter {
		t.Errorf("first is %v", first)
	}
}

// Half of a pair of surrogates is another character for each reader: many show the replacement character.
func TestAHalfOfACharacterIsReported(t *testing.T) {
	t.Parallel()
	items := []content.Item{content.UserText("\ufffd \U0001f600 \\ud83d")}
	b := change(tools(), 1, func(e *events.InputQueued) { e.Items = items })
	b = change(b, 1, func(e *events.InputAccepted) { e.Items = items })
	text := exported(t, b.records(t))
	for escaped, good := range map[string]bool{
		`\ufffd \ud83d\ude00 \\ud83d`: true, `\uFFFD \uD83D\uDE00 \\ud83d`: true,
		`\ud83d \ud83d\ude00 \\ud83d`: false, `\ude00 \ud83d\ude00 \\ud83d`: false, `\ufffd \ud83d\ude00 \ud83d`: false,
		`\uDBFF \ud83d\ude00 \\ud83d`: false, `\ud83d\ud83d \ud83d\ude00 \\ud83d`: false, `\ufffd \ude00\ud83d \\ud83d`: false,
	} {
		shown := strings.ReplaceAll(text, "\ufffd \U0001f600 \\\\ud83d", escaped)
		if shown == text {
			t.Fatal("nothing was changed")
		}
		if _, err := imported(strings.NewReader(shown)); (err == nil) != good {
			t.Errorf("%s: %v", escaped, err)
		}
	}
}

// Only the head shows that entries are missing at the end.
func TestAnExportCutAfterALineIsAShorterJournal(t *testing.T) {
	t.Parallel()
	text := exported(t, tools().records(t))
	lines := strings.SplitAfter(text, "\n")
	for n := 1; n <= 10; n++ {
		report, err := Verify(Import(strings.NewReader(strings.Join(lines[:n+1], ""))))
		if err != nil || !report.OK() || report.Head.Seq != uint64(n) || report.Head.Hash != tools().records(t)[n-1].Hash {
			t.Errorf("%d entries: %+v, %v", n, report, err)
		}
	}
	if _, err := imported(strings.NewReader(strings.TrimSuffix(text, "\n"))); err != nil {
		t.Errorf("without the last newline: %v", err)
	}
}

func TestImportAcceptsReformattedLines(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	records := tools().records(t)
	signature := content.Signature{Key: "UKEY", Bytes: []byte("signed")}
	for i := range records[1:] { // all but the first
		records[1+i].Signature = signature
	}
	for l := range strings.Lines(exported(t, records)) {
		var v any
		if err := json.Unmarshal([]byte(l), &v); err != nil {
			t.Fatal(err)
		}
		sorted, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, " %s\r\n\n", sorted)
	}
	back, err := imported(strings.NewReader(b.String()))
	if diff := cmp.Diff(records, back, noLines()); err != nil || diff != "" {
		t.Errorf("%v; -want +got\n%s", err, diff)
	}
}

func TestImportReadsALineOfManyMegabytes(t *testing.T) {
	t.Parallel()
	b := tools()
	big := content.UserText(strings.Repeat("x", 2<<20))
	b = change(b, 1, func(e *events.InputQueued) { e.Items = []content.Item{big} })
	b = change(b, 1, func(e *events.InputAccepted) { e.Items = []content.Item{big} })
	report, err := Verify(Import(strings.NewReader(exported(t, b.records(t)))))
	if err != nil || !report.OK() {
		t.Errorf("%v, %v", report.Faults, err)
	}
}

func TestAnEntryOfALaterReleaseIsExportedRaw(t *testing.T) {
	t.Parallel()
	records := tools().records(t)
	payload := bytes.Replace(records[9].Payload, []byte("turn_finished"), []byte("turn_fumished"), 1)
	e, err := events.Decode(payload)
	if !errors.Is(err, events.ErrUnknownKind) {
		t.Fatal(err)
	}
	e.Events = nil
	records[9] = journal.Record{Head: journal.Head{Seq: 10, Hash: events.HashOf(payload)}, Entry: e, Payload: payload, Err: err}
	text := exported(t, records)
	if !strings.Contains(text, `"kinds":[],"events":[],"unread":"entry s-1/10: unknown event kind`) {
		t.Errorf("the export ends with %s", text[len(text)-400:])
	}
	back, err := imported(strings.NewReader(text))
	if err != nil || len(back) != 10 || !errors.Is(back[9].Err, events.ErrUnknownKind) || !bytes.Equal(back[9].Payload, payload) {
		t.Errorf("Import = %d entries, %v", len(back), err)
	}
	unread := strings.Replace(exported(t, tools().records(t)[:1]), `"kinds":["driver_claimed"]`, `"unread":"too new","kinds":[]`, 1)
	i, j := strings.Index(unread, `"events":[`), strings.Index(unread, `,"payload"`)
	unread = unread[:i] + `"events":[]` + unread[j:]
	if _, err := imported(strings.NewReader(unread)); !errors.Is(err, ErrBadExport) || !strings.Contains(err.Error(), "tampered: unread: ") {
		t.Errorf("a view that says nothing about a readable entry: %v", err)
	}
}

func TestExportReturnsErrors(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := Export(&b, journal.All(nil)); !errors.Is(err, ErrNothingToExport) || b.Len() > 0 {
		t.Errorf("an empty journal: %v, %d bytes", err, b.Len())
	}
	down := errors.New("down")
	if err := Export(&b, func(yield func(journal.Record, error) bool) { yield(journal.Record{}, down) }); !errors.Is(err, down) {
		t.Errorf("a failing reader: %v", err)
	}
	if err := Export(failingWriter{down}, journal.All(tools().records(t))); !errors.Is(err, down) {
		t.Errorf("a failing writer: %v", err)
	}
	if _, err := imported(iotest.ErrReader(down)); !errors.Is(err, down) {
		t.Errorf("a failing source: %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestImportStopsWithItsConsumer(t *testing.T) {
	t.Parallel()
	n := 0
	for _, err := range Import(strings.NewReader(exported(t, tools().records(t)))) {
		if n++; n == 3 || err != nil {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d entries were read", n)
	}
}

func FuzzImport(f *testing.F) {
	text := exported(f, tools().records(f))
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Fuzz(func(t *testing.T, s string) {
		for _, err := range Import(strings.NewReader(s)) {
			if err != nil && !errors.Is(err, ErrBadExport) {
				t.Fatalf("Import = %v, want ErrBadExport", err)
			}
		}
		if _, err := Verify(Import(strings.NewReader(s))); err != nil && !errors.Is(err, ErrBadExport) {
			t.Fatal(err)
		}
	})
}

func TestEntriesBeforeAReadErrorAreExported(t *testing.T) {
	t.Parallel()
	records := tools().records(t)
	bad := errors.New("damaged")
	var b bytes.Buffer
	err := Export(&b, func(yield func(journal.Record, error) bool) {
		for _, r := range records[:3] {
			yield(r, nil)
		}
		yield(journal.Record{}, bad)
	})
	if !errors.Is(err, bad) {
		t.Errorf("Export = %v", err)
	}
	back, err := imported(strings.NewReader(b.String()))
	if diff := cmp.Diff(records[:3], back, noLines()); err != nil || diff != "" {
		t.Errorf("%v; -want +got\n%s", err, diff)
	}
}

func TestAnEntryOfALaterFormatIsExportedAndReported(t *testing.T) {
	t.Parallel()
	records := tools().records(t)
	last := &records[len(records)-1]
	for _, corrupt := range []func([]byte) []byte{
		func(b []byte) []byte { b[1] = 9; return b },
		func([]byte) []byte { return []byte{0x92, 9, 0x80} },
	} {
		last.Payload = corrupt(bytes.Clone(last.Payload))
		last.Hash = events.HashOf(last.Payload)
		last.Err = events.ErrUnknownKind
		back, err := imported(strings.NewReader(exported(t, records)))
		if err != nil || len(back) != len(records) || back[len(back)-1].Err == nil {
			t.Fatalf("%d records, %v", len(back), err)
		}
		r, err := Verify(journal.All(back))
		first, bad := r.First()
		if err != nil || !bad || first.Seq != last.Seq || first.Invariant != wholeEntries || len(r.Faults) != 1 ||
			!strings.Contains(first.What, "format version 9 is newer than this release, which reads up to 2") {
			t.Errorf("%+v, %v", r.Faults, err)
		}
	}
}

func TestEntryJSONIsALineWithCursorsInsteadOfBytes(t *testing.T) {
	t.Parallel()
	r := journal.Record{
		Head: journal.Head{Seq: 7, Guard: 90}, Payload: []byte("bytes"),
		Entry: events.Entry{
			Session: "s-42", Seq: 7, At: 1_700_000_000_123_456_789, Epoch: 1, Cause: "c-7",
			Cursors: []events.Cursor{{Lane: "ask", Seq: 3}}, Events: []events.Event{events.RoundStarted{Turn: "turn-1", Round: 2}},
		},
	}
	zero := strings.Repeat("0", 64)
	want := `{"seq":7,"session":"s-42","prev":"` + zero + `","hash":"` + zero + `","at":"2023-11-14T22:13:20.123456789Z","epoch":1,` +
		`"cause":"c-7","cursors":[{"lane":"ask","seq":3}],"position":90,`
	for _, tt := range []struct {
		unread error
		rest   string
	}{
		{nil, `"kinds":["round_started"],"events":[{"kind":"round_started","turn":"turn-1","round":2}]}`},
		{events.ErrUnknownKind, `"kinds":[],"events":[],"unread":"` + events.ErrUnknownKind.Error() + `","payload":"Ynl0ZXM="}`},
	} {
		r.Err = tt.unread
		raw, err := EntryJSON(r)
		if diff := cmp.Diff(want+tt.rest, string(raw)); err != nil || diff != "" {
			t.Errorf("EntryJSON = %v (-want +got):\n%s", err, diff)
		}
	}
}
