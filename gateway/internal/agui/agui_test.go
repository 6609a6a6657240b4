package agui

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/gateway/internal/streamtest"
	"github.com/turnlog/turnlog/internal/testing/frozen"
	"github.com/turnlog/turnlog/internal/testing/golden"
)

var update = golden.Flag()

// reader is a client's state, built from the events of runs.
type reader struct {
	t        testing.TB
	messages []Event
	open     map[string]bool // messages, calls and steps
	log      []string
	outcome  any
}

// take applies an event to the messages as the protocol says. It checks that events only continue open items, and that
// no items are open at the end of a run.
func (r *reader) take(e Event) {
	r.t.Helper()
	text := golden.Line(r.t, e)
	r.log = append(r.log, text)
	var v struct {
		Type, MessageID, ToolCallID, ToolCallName, ParentMessageID, Delta, Content, Role, StepName string
		Messages                                                                                   []Event
		Outcome                                                                                    any
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		r.t.Fatal(err)
	}
	find := func(id string) Event {
		for _, m := range r.messages {
			if m["id"] == id {
				return m
			}
		}
		return nil
	}
	add := func(m Event) Event {
		r.messages = append(r.messages, m)
		return m
	}
	mark := func(id string, opens bool) {
		if r.open[id] == opens {
			r.t.Errorf("%s, but %s is open: %v", text, id, r.open[id])
		}
		if delete(r.open, id); opens {
			r.open[id] = true
		}
	}
	call := func() Event {
		for _, m := range r.messages {
			calls, _ := m["toolCalls"].([]any)
			for _, c := range calls {
				if c := c.(Event); c["id"] == v.ToolCallID {
					return c["function"].(Event)
				}
			}
		}
		return nil
	}
	switch v.Type {
	case "RUN_STARTED":
		r.open = map[string]bool{}
	case "MESSAGES_SNAPSHOT":
		r.messages = v.Messages
	case "TEXT_MESSAGE_START", "REASONING_MESSAGE_START":
		mark(v.MessageID, true)
		if find(v.MessageID) == nil {
			add(Event{"id": v.MessageID, "role": v.Role, "content": ""})
		}
	case "TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT":
		m := find(v.MessageID)
		if !r.open[v.MessageID] || v.Delta == "" {
			r.t.Errorf("%s, but it is not open", text)
		}
		m["content"] = m["content"].(string) + v.Delta
	case "TEXT_MESSAGE_END", "REASONING_MESSAGE_END":
		mark(v.MessageID, false)
	case "TOOL_CALL_START":
		mark(v.ToolCallID, true)
		m := find(v.ParentMessageID)
		if m == nil {
			m = add(Event{"id": v.ParentMessageID, "role": "assistant"})
		}
		if call() == nil {
			calls, _ := m["toolCalls"].([]any)
			m["toolCalls"] = append(calls, Event{"id": v.ToolCallID, "type": "function", "function": Event{"name": v.ToolCallName, "arguments": ""}})
		}
	case "TOOL_CALL_ARGS":
		call()["arguments"] = call()["arguments"].(string) + v.Delta
	case "TOOL_CALL_END":
		mark(v.ToolCallID, false)
	case "TOOL_CALL_RESULT":
		i := slices.IndexFunc(r.messages, func(m Event) bool {
			return strings.Contains(golden.Line(r.t, m["toolCalls"]), `"`+v.ToolCallID+`"`)
		}) + 1
		for i < len(r.messages) && r.messages[i]["role"] == "tool" {
			i++
		}
		r.messages = slices.Insert(r.messages, i, Event{"id": v.MessageID, "role": "tool", "toolCallId": v.ToolCallID, "content": v.Content})
	case "STEP_STARTED":
		mark(v.StepName, true)
	case "STEP_FINISHED":
		mark(v.StepName, false)
	case "RUN_FINISHED", "RUN_ERROR":
		if r.outcome = v.Outcome; len(r.open) > 0 {
			r.t.Errorf("%s, but open are %v", text, r.open)
		}
	}
}

// read has a client read a run, whose stream begins with the session.
func read(t testing.TB, all []journal.Record, run *Run, have []Event) *reader {
	t.Helper()
	r := &reader{t: t, messages: have}
	st := stream.New(stream.Cursor{})
	for _, rec := range all {
		st.Entry(rec, func(ev stream.Event) { run.Show(ev, r.take) })
	}
	return r
}

func TestRecordedJournalsHaveTheseRuns(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"approvals", "open_approval", "plain", "cancel", "fail_run", "partial", "replies", "model_lost", "limits", "background", "users", "tools"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := frozen.Journal(t, name)
			var b strings.Builder
			for turn := 1; ; turn++ {
				part := 1
				for ; ; part++ {
					r := read(t, all, NewRun("s", fmt.Sprintf("run-%d-%d", turn, part), turn, part, part), nil)
					if len(r.log) == 0 {
						break
					}
					fmt.Fprintln(&b, strings.Join(r.log, "\n"))
				}
				if part == 1 {
					break
				}
			}
			for _, rec := range all { // a client may come back after any entry
				run := Rejoin("s", "again", rec.Seq)
				r := read(t, all, run, []Event{{"id": "what was lost", "role": "assistant"}})
				if got, want := golden.Line(t, r.messages), golden.Line(t, run.messages); got != want || !run.over && run.current.Over() {
					t.Errorf("after %d: %s, want %s", rec.Seq, got, want)
				}
				if rec.Seq == all[len(all)-1].Seq {
					fmt.Fprintln(&b, strings.Join(r.log, "\n"))
				}
			}
			golden.Check(t, *update, filepath.Join("testdata", name+".txt"), b.String())
		})
	}
}

// TestAReaderGetsTheExactTextWhereverItJoins has readers join a turn whose fragments come live, also in the middle of a text.
func TestAReaderGetsTheExactTextWhereverItJoins(t *testing.T) {
	t.Parallel()
	for _, run := range []*Run{NewRun("s", "r", 1, 1, 1), Rejoin("s", "r", 1), Rejoin("s", "r", 2), Rejoin("s", "r", 3)} {
		r := &reader{t: t}
		streamtest.Live(func(ev stream.Event) { run.Show(ev, r.take) })
		if got := golden.Line(t, r.messages); got != `[{"content":"Grüße an alle","id":"t1-r1-a2","role":"assistant"}]` || !run.over {
			t.Errorf("%s\n%s", got, strings.Join(r.log, "\n"))
		}
	}
}

func TestOnlyWhatIsNewInARequestCounts(t *testing.T) {
	t.Parallel()
	parse := func(messages ...string) (*Request, error) {
		var raw []json.RawMessage
		for _, m := range messages {
			raw = append(raw, json.RawMessage(m))
		}
		return Parse(raw)
	}
	const hi = `{"id":"1","role":"user","content":"Hi"}`
	r, err := parse(hi, `{"id":"2","role":"assistant","toolCalls":[]}`, `{"id":"3","role":"tool","content":"x","toolCallId":"c"}`,
		`{"id":"4","role":"user","content":[{"type":"text","text":"And"},{"type":"image","source":{"type":"data","value":"aGk=","mimeType":"image/png"}}]}`)
	if err != nil || golden.Line(t, r.Earlier) != `["Hi"]` || r.ID != "4" || r.Input.Text() != "And" || string(r.Input.Parts[1].Media.Bytes) != "hi" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = parse(hi, `{"id":"2","role":"assistant","content":"x"}`); err != nil || r.Input != nil || len(r.Earlier) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{
		`{"id":"s","role":"system","content":"x"}`, `{"id":"1","role":"user","content":""}`, `{"id":"1","role":"user","content":[]}`, `{`,
		`{"id":"1","role":"user","content":[{"type":"image","source":{"type":"url","value":"https://example.com/a.png"}}]}`,
	} {
		if r, err := parse(bad); err == nil {
			t.Errorf("%s: %+v", bad, r)
		}
	}
	for text, want := range map[string]string{
		`{"interruptId":"g.d","status":"resolved","payload":{"approved":true,"editedArgs":{"a":1}}}`:             `{"Approval":"g","Approve":true,"Reason":"","Input":{"a":1},"Shown":"d"}`,
		`{"interruptId":"g.d","status":"resolved","payload":{"approved":false,"reason":"no","editedArgs":null}}`: `{"Approval":"g","Approve":false,"Reason":"no","Input":null,"Shown":"d"}`,
		`{"interruptId":"g.d","status":"cancelled"}`:                                                             `{"Approval":"g","Approve":false,"Reason":"cancelled","Input":null,"Shown":"d"}`,
		`{"interruptId":"g","status":"cancelled"}`:                                                               "",
		`{"interruptId":"g.","status":"cancelled"}`:                                                              "",
		`{"interruptId":"g.d","status":"resolved","payload":{}}`:                                                 "",
		`{"interruptId":"g.d","status":"resolved","payload":true}`:                                               "",
	} {
		var a Answer
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		if d, err := a.Decision(); (err != nil) != (want == "") || err == nil && golden.Line(t, d) != want {
			t.Errorf("%s: %s, %v", text, golden.Line(t, d), err)
		}
	}
}
