package uistream

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/gateway/internal/streamtest"
	"github.com/turnlog/turnlog/internal/testing/frozen"
	"github.com/turnlog/turnlog/internal/testing/golden"
)

var update = golden.Flag()

// follow returns the chunks of parts of a turn.
func follow(all []journal.Record, turn, first, last int) (out []Chunk, s *Stream) {
	s = NewStream("s", turn, first, last)
	st := stream.New(stream.Cursor{})
	for _, rec := range all {
		st.Entry(rec, func(ev stream.Event) { s.Show(ev, func(c Chunk) { out = append(out, c) }) })
	}
	return out, s
}

func TestRecordedJournalsHaveTheseChunksAndMessages(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"approvals", "open_approval", "plain", "cancel", "fail_run", "partial", "replies", "model_lost", "limits", "background", "users", "tools"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := frozen.Journal(t, name)
			var b strings.Builder
			for turn := 1; ; turn++ {
				_, whole := follow(all, turn, 1, 1<<20)
				for part := 1; part <= whole.turn.Part(); part++ {
					fmt.Fprintf(&b, "# turn %d, part %d\n", turn, part)
					list, _ := follow(all, turn, part, part)
					for _, c := range list {
						fmt.Fprintln(&b, golden.Line(t, c))
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
				fmt.Fprintln(&b, golden.Line(t, m))
			}
			golden.Check(t, *update, filepath.Join("testdata", name+".txt"), b.String())
		})
	}
}

// TestAReaderGetsTheSameMessageLiveAndAgain compares the message of a live reader with the message of a later one.
func TestAReaderGetsTheSameMessageLiveAndAgain(t *testing.T) {
	t.Parallel()
	live, s := &Message{Parts: []Chunk{}}, NewStream("s", 1, 1, 1)
	half := ""
	show := func(ev stream.Event) {
		s.Show(ev, func(c Chunk) {
			live.take(c)
			if c["delta"] == "Hal" {
				half = golden.Line(t, live.Parts)
			}
		})
	}
	streamtest.Live(show)
	again := &Message{Parts: []Chunk{}}
	chunks, _ := follow(streamtest.Entries(), 1, 1, 1)
	for _, c := range chunks {
		again.take(c)
	}
	if !reflect.DeepEqual(live, again) || half != `[{"type":"step-start"},{"state":"streaming","text":"Hal","type":"text"}]` {
		t.Errorf("live %s, again %s, half %s", golden.Line(t, live), golden.Line(t, again), half)
	}
	if text := live.Parts[1]["text"]; len(live.Parts) != 2 || text != streamtest.Text {
		t.Errorf("message %s", golden.Line(t, live))
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
	if err != nil || golden.Line(t, r.Earlier) != `["Hi","Wait"]` || r.ID != "m2" || r.Input.Text() != "And" || string(r.Input.Parts[1].Media.Bytes) != "hi" || len(r.Decisions) != 0 {
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
