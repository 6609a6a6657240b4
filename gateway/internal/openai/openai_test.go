package openai

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/gateway/internal/streamtest"
	"github.com/turnlog/turnlog/internal/testing/frozen"
	"github.com/turnlog/turnlog/internal/testing/golden"
)

var update = golden.Flag()

// follow returns the events of a response after a sequence number.
func follow(all []journal.Record, id ID, after int64) (out []Event, r *Responses) {
	r = NewResponses(id, "m", after)
	s := stream.New(stream.Cursor{})
	for _, rec := range all {
		s.Entry(rec, func(ev stream.Event) { r.Show(ev, func(e Event) { out = append(out, e) }) })
	}
	return out, r
}

func TestRecordedJournalsHaveTheseResponses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"approvals", "open_approval", "plain", "cancel", "fail_run", "partial", "replies", "model_lost", "limits", "background"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := frozen.Journal(t, name)
			var b strings.Builder
			for turn := 1; ; turn++ {
				part := 1
				for ; ; part++ {
					id := ID{"s", turn, part}
					list, r := follow(all, id, -1)
					if !r.Begun() {
						break
					}
					fmt.Fprintf(&b, "# %s\n", id)
					for i, e := range list {
						fmt.Fprintf(&b, "%s\n", golden.Line(t, e.Data))
						if i > 0 && e.Sequence <= list[i-1].Sequence {
							t.Errorf("%s: number %d after %d", id, e.Sequence, list[i-1].Sequence)
						}
						rest, again := follow(all, id, e.Sequence)
						if golden.Line(t, rest) != golden.Line(t, list[i+1:]) && i+1 < len(list) || golden.Line(t, again.Response()) != golden.Line(t, r.Response()) {
							t.Errorf("%s: after %d: %s, want %s", id, e.Sequence, golden.Line(t, rest), golden.Line(t, list[i+1:]))
						}
					}
				}
				if part == 1 {
					break
				}
				c := NewChat("s", turn, "m")
				s := stream.New(stream.Cursor{})
				for _, rec := range all {
					s.Entry(rec, func(ev stream.Event) {
						c.Show(ev, func(chunk map[string]any) { fmt.Fprintf(&b, "%s\n", golden.Line(t, chunk)) })
					})
				}
				fmt.Fprintf(&b, "%s\n%s\n", golden.Line(t, c.Completion()), golden.Line(t, c.Failed()))
			}
			golden.Check(t, *update, filepath.Join("testdata", name+".txt"), b.String())
		})
	}
}

func TestAReaderContinuesAnywhereWithTheExactText(t *testing.T) {
	t.Parallel()
	id := ID{"s", 1, 1}
	var list []Event
	r := NewResponses(id, "m", -1)
	streamtest.Live(func(ev stream.Event) { r.Show(ev, func(e Event) { list = append(list, e) }) })
	text := func(list []Event) (out string) {
		for _, e := range list {
			switch e.Type {
			case "response.output_text.delta":
				out += e.Data["delta"].(string)
			case "turnlog.void":
				out = ""
			}
		}
		return out
	}
	for i, e := range list {
		rest, again := follow(streamtest.Entries(), id, e.Sequence)
		got := append(append([]Event{}, list[:i+1]...), rest...)
		if text(got) != streamtest.Text || len(rest) > 0 && rest[0].Sequence <= e.Sequence {
			t.Errorf("after %d (%s): %q, %s", e.Sequence, e.Type, text(got), golden.Line(t, rest))
		}
		if golden.Line(t, again.Response()) != golden.Line(t, r.Response()) {
			t.Errorf("response %s, want %s", golden.Line(t, again.Response()), golden.Line(t, r.Response()))
		}
	}
}

func TestAChatContinuesOnlyWhatItSaid(t *testing.T) {
	t.Parallel()
	c, text := NewChat("s", 1, "m"), ""
	streamtest.Live(func(ev stream.Event) {
		c.Show(ev, func(chunk map[string]any) {
			if s, ok := chunk["choices"].([]object)[0]["delta"].(object)["content"].(string); ok {
				text += s
			}
		})
	})
	if text != "Hal" || c.Failed() == nil || c.Failed().Code != "void" {
		t.Errorf("%q, %v", text, c.Failed())
	}
}

// TestADeletedSessionEndsWhatItAnswers deletes a session during a turn. The turn has no other end.
func TestADeletedSessionEndsWhatItAnswers(t *testing.T) {
	t.Parallel()
	all := streamtest.Entries()[:2]
	gone := events.Entry{Seq: 3, Events: []events.Event{events.SessionDeleted{By: "kim"}}}
	all = append(all, journal.Record{Head: journal.Head{Seq: 3, Guard: 3}, Entry: gone})
	out, r := follow(all, ID{"s", 1, 1}, -1)
	if last := out[len(out)-1]; !r.Over() || last.Type != "response.failed" || !strings.Contains(golden.Line(t, last.Data), "the session was deleted: ") {
		t.Errorf("over: %t, last event: %s", r.Over(), golden.Line(t, last.Data))
	}
	c := NewChat("s", 1, "m")
	over, s := false, stream.New(stream.Cursor{})
	for _, rec := range all {
		s.Entry(rec, func(ev stream.Event) { over = c.Show(ev, func(map[string]any) {}) })
	}
	if failed := c.Failed(); !over || failed == nil {
		t.Errorf("over: %t, failed: %v", over, failed)
	}
}

func TestOnlyIDsOfResponsesParse(t *testing.T) {
	t.Parallel()
	for _, id := range []ID{{"s", 1, 1}, {"a_b-3", 12, 3}} {
		if got, err := ParseID(id.String()); got != id || err != nil {
			t.Errorf("ParseID(%s) = %v, %v", id, got, err)
		}
	}
	for _, bad := range []string{"", "resp_", "resp_s", "resp_s.0", "resp_s.1.1", "resp_s.01", "s.1", "resp_s.1.2.3", "resp_é.1"} {
		if id, err := ParseID(bad); err == nil {
			t.Errorf("ParseID(%q) = %v", bad, id)
		}
	}
}

func TestRequestsThatMeanSomethingElseAreRefused(t *testing.T) {
	t.Parallel()
	chat := `{"model":"m","messages":[{"role":"system","content":"Be brief"},{"role":"user","content":[{"type":"text","text":"Hi"}]}]`
	r, bad := ParseChat([]byte(chat + `,"temperature":1,"n":1,"user":"u","tools":[]}`))
	if bad != nil || r.System != "Be brief" || len(r.Input) != 1 || r.Input[0].Text() != "Hi" || len(r.History) != 0 {
		t.Fatalf("%+v, %v", r, bad)
	}
	for field, value := range map[string]string{
		"tools": `[{"type":"function"}]`, "n": "2", "logprobs": "true", "temperature": "0.2", "max_tokens": "5", "stop": `["x"]`, "response_format": `{"type":"json_object"}`,
	} {
		if _, bad := ParseChat([]byte(chat + `,"` + field + `":` + value + "}")); bad == nil || bad.Param != field || bad.Code != "unsupported_parameter" {
			t.Errorf("%s: %v", field, bad)
		}
	}
	for body, param := range map[string]string{
		`{"input":"Hi","store":false}`:                                                                           "store",
		`{"input":"Hi","previous_response_id":"a","conversation":"b"}`:                                           "conversation",
		`{"input":[{"role":"assistant","content":"Hi"}]}`:                                                        "input",
		`{"input":[{"type":"function_call_output","call_id":"c","output":""}]}`:                                  "input[0]",
		`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://example.com/a.png"}]}]}`: "input[0]",
		`{"input":[{"type":"mcp_approval_response","approval_request_id":"mcpr_a","approve":true}]}`:             "previous_response_id",
	} {
		if _, bad := ParseResponse([]byte(body)); bad == nil || bad.Param != param {
			t.Errorf("%s: %v, want %s", body, bad, param)
		}
	}
	if _, bad := ParseChat([]byte(`{"messages":[{"role":"user","content":"### Task:\nGenerate a title"}]}`)); bad == nil || bad.Code != "auxiliary_request" {
		t.Errorf("a request for a title: %v", bad)
	}
}
