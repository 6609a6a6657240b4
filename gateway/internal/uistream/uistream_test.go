package uistream

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

var update = flag.Bool("update", false, "rewrite the expected chunks")

// journals are recorded sessions of all kinds.
const journals = "../../../tests/replay/testdata"

func recorded(t *testing.T, name string) (all []journal.Record) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(journals, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range audit.Import(bytes.NewReader(raw)) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

// follow returns the chunks of parts of a turn.
func follow(all []journal.Record, turn, first, last int) (out []Chunk, s *Stream) {
	s = NewStream("s", turn, first, last)
	st := stream.New(stream.Cursor{})
	for _, rec := range all {
		st.Entry(rec, func(ev stream.Event) { s.Show(ev, func(c Chunk) { out = append(out, c) }) })
	}
	return out, s
}

func line(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRecordedJournalsHaveTheseChunksAndMessages(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"approvals", "open_approval", "plain", "cancel", "fail_run", "partial", "replies", "model_lost", "limits", "background", "users", "tools"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := recorded(t, name)
			var b strings.Builder
			for turn := 1; ; turn++ {
				_, whole := follow(all, turn, 1, 1<<20)
				for part := 1; part <= whole.turn.Part(); part++ {
					fmt.Fprintf(&b, "# turn %d, part %d\n", turn, part)
					list, _ := follow(all, turn, part, part)
					for _, c := range list {
						fmt.Fprintln(&b, line(t, c))
					}
				}
				if whole.turn.Part() == 0 {
					break
				}
			}
			h, st := NewHistory("s"), stream.New(stream.Cursor{})
			for _, rec := range all {
				st.Entry(rec, h.Show)
			}
			for _, m := range h.Messages() {
				fmt.Fprintln(&b, line(t, m))
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || string(want) != b.String() {
				t.Errorf("%v; go test -update; %s", err, b.String())
			}
		})
	}
}

// entries are those of a turn whose first attempt fails after half of its text.
func entries() (all []journal.Record) {
	turn := content.TurnIDFor(1)
	for i, list := range [][]events.Event{
		{events.TurnStarted{Turn: turn}, events.RoundStarted{Turn: turn, Round: 1}, events.ModelCallStarted{Turn: turn, Round: 1, Attempt: 1}},
		{events.ModelCallFailed{Turn: turn, Round: 1, Attempt: 1}, events.ModelCallStarted{Turn: turn, Round: 1, Attempt: 2}},
		{
			events.ReplyRecorded{Turn: turn, Round: 1, Attempt: 2, Items: []content.Item{content.AssistantText("Grüße an alle")}},
			events.TurnFinished{Turn: turn, FinishReason: content.Completed},
		},
	} {
		all = append(all, journal.Record{Head: journal.Head{Seq: uint64(i + 1), Guard: uint64(i + 1)}, Entry: events.Entry{Events: list}})
	}
	return all
}

func delta(attempt, after int, op content.DeltaOp, text string) events.ContentDelta {
	return events.ContentDelta{Turn: "turn-1", Round: 1, Attempt: attempt, After: after + 1, Delta: content.Delta{Op: op, Kind: content.TextKind, Text: text}}
}

// TestAReaderGetsTheSameMessageLiveAndAgain compares what a reader has that was there from the beginning with what
// another one gets later.
func TestAReaderGetsTheSameMessageLiveAndAgain(t *testing.T) {
	t.Parallel()
	all, st := entries(), stream.New(stream.Cursor{})
	live, s := &Message{Parts: []Chunk{}}, NewStream("s", 1, 1, 1)
	half := ""
	show := func(ev stream.Event) {
		s.Show(ev, func(c Chunk) {
			live.take(c)
			if c["delta"] == "Hal" {
				half = line(t, live.Parts)
			}
		})
	}
	st.Entry(all[0], show)
	st.Live(delta(1, 0, content.BeginPart, ""), show)
	st.Live(delta(1, 0, content.AppendPart, "Hal"), show)
	st.Entry(all[1], show)
	st.Live(delta(2, 0, content.BeginPart, ""), show)
	for i, r := range "Grüße an" {
		st.Live(delta(2, i, content.AppendPart, string(r)), show)
	}
	st.Entry(all[2], show)
	again := &Message{Parts: []Chunk{}}
	chunks, _ := follow(all, 1, 1, 1)
	for _, c := range chunks {
		again.take(c)
	}
	if !reflect.DeepEqual(live, again) || half != `[{"type":"step-start"},{"state":"streaming","text":"Hal","type":"text"}]` {
		t.Errorf("live %s, again %s, half %s", line(t, live), line(t, again), half)
	}
	if text := live.Parts[1]["text"]; len(live.Parts) != 2 || text != "Grüße an alle" {
		t.Errorf("message %s", line(t, live))
	}
}

func TestOnlyTheLastMessageOfARequestCounts(t *testing.T) {
	t.Parallel()
	const hi = `{"id":"m1","role":"user","parts":[{"type":"text","text":"Hi"}]}`
	const steered = `{"id":"turn-1","role":"assistant","parts":[{"type":"steering-message","id":"x","parts":[{"type":"text","text":"Wait"}]},` +
		`{"type":"dynamic-tool","state":"approval-responded","approval":{"id":"g1","approved":false,"reason":"no"}},{"type":"dynamic-tool","state":"approval-requested","approval":{"id":"g2"}}]}`
	parse := func(decides string, messages ...string) (*Request, error) {
		var raw []json.RawMessage
		for _, m := range messages {
			raw = append(raw, json.RawMessage(m))
		}
		return Parse(raw, decides)
	}
	r, err := parse("", hi, steered, `{"id":"m2","role":"user","parts":[{"type":"text","text":"And"},{"type":"file","filename":"a","url":"data:text/plain;base64,aGk="}]}`)
	if err != nil || line(t, r.Said) != `["Hi","Wait"]` || r.ID != "m2" || r.Input.Text() != "And" || string(r.Input.Parts[1].Media.Bytes) != "hi" || len(r.Decisions) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, decides := range []string{"", "turn-1"} {
		r, err = parse(decides, hi, steered)
		if err != nil || !reflect.DeepEqual(r.Decisions, []stream.Decision{{Approval: "g1", Reason: "no"}}) || len(r.Input.Parts) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	for _, bad := range [][]string{
		{},
		{`{"id":"s","role":"system","parts":[]}`, hi},
		{`{"id":"m","role":"user","parts":[]}`},
		{`{"role":`},
		{hi, `{"id":"a","role":"assistant","parts":[]}`},
		{`{"id":"m","role":"user","parts":[{"type":"file","url":"https://example.com/a.png"}]}`},
		{`{"id":"m","role":"user","parts":[{"type":"data-x"}]}`},
	} {
		if r, err := parse("", bad...); err == nil {
			t.Errorf("%v: %+v", bad, r)
		}
	}
}
