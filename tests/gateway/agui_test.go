package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// run has the parts of a run's events that these tests check.
type run struct {
	types    []string
	text     string
	messages []fields // of the last snapshot
	asked    []interrupt
	outcome  string
	code     string // of an error
}

type interrupt struct {
	ID, Message string
	Metadata    struct{ Arguments struct{ N int } }
}

func (u *run) read(t testing.TB, resp *http.Response) {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var e struct {
			Type, Delta, Code string
			Messages          []fields
			Outcome           struct {
				Type       string
				Interrupts []interrupt
			}
		}
		if !ok || json.Unmarshal([]byte(data), &e) != nil {
			continue
		}
		u.types = append(u.types, e.Type)
		switch e.Type {
		case "TEXT_MESSAGE_CONTENT":
			u.text += e.Delta
		case "MESSAGES_SNAPSHOT":
			u.text, u.messages = "", e.Messages
		case "RUN_ERROR":
			u.code = e.Code
		case "RUN_FINISHED":
			u.outcome = e.Outcome.Type
			u.asked = e.Outcome.Interrupts
		}
	}
}

// agui sends a RunAgentInput and reads the run.
func (s *service) agui(body fields, change ...request) (u run) {
	s.w.T.Helper()
	resp, err := s.send(http.MethodPost, "/api/ag-ui", body, change...) //nolint:bodyclose // read closes it
	if err != nil {
		s.w.T.Fatal(err)
	}
	u.read(s.w.T, resp)
	return u
}

func thread(id string, messages ...fields) fields {
	return fields{
		"threadId": id, "runId": "run", "protocolVersion": "1.0", "tools": []fields{}, "context": []fields{}, "state": fields{}, "forwardedProps": fields{},
		"messages": append([]fields{}, messages...),
	}
}

func said(id, text string) fields { return fields{"id": id, "role": "user", "content": text} }

func TestAThreadOfAGUIIsASession(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway(func(c *gateway.Config) { c.Access = people.Access{Loopback: true, People: []byte(staff())} })
		u, other := with("Authorization", "Bearer user-token"), with("Authorization", "Bearer other-token")
		first := g.agui(thread("g-1", said("1", "Hi")), u)
		if first.text != "Hello, world" || first.outcome != "success" || first.types[0] != "RUN_STARTED" {
			t.Fatalf("first %+v", first)
		}
		again := g.agui(thread("g-1", said("1", "Hi")), u)
		if len(again.messages) != 2 || again.messages[0]["id"] != "1" || again.messages[1]["content"] != "Hello, world" || again.outcome != "success" {
			t.Errorf("the same message again: %+v", again)
		}
		second := g.agui(thread("g-1", said("1", "Hi"), fields{"id": "t1-r1-a1", "role": "assistant", "content": "Hello, world"}, said("2", "More")), u)
		if second.text != "Hello, world" || second.outcome != "success" {
			t.Errorf("second %+v", second)
		}
		if all := g.agui(thread("g-1"), u); len(all.messages) != 4 || all.messages[2]["content"] != "More" {
			t.Errorf("all %+v", all)
		}
		with2 := func(key string, value any) fields {
			body := thread("g-2", said("1", "Hi"))
			body[key] = value
			return body
		}
		for _, c := range []struct {
			body   any
			as     request
			status int
			code   string
		}{
			{thread("g-1", said("1", "Edited")), u, 409, "history_differs"},
			{thread("g-1", said("1", "Hi"), said("9", "Other")), u, 409, "history_differs"},
			{thread("g-2", said("1", "Hi"), said("2", "More")), u, 409, "history_differs"},
			{thread("g-2"), u, 404, "no_session"},
			{thread("g-1", said("1", "Hi")), other, 404, "no_session"},
			{thread("g-1", said("7", "Hi")), other, 409, "session_exists"},
			{thread("g-1"), other, 404, "no_session"},
			{with2("tools", []fields{{"name": "x"}}), u, 422, "bad_request"},
			{with2("context", []fields{{"description": "x", "value": "y"}}), u, 422, "bad_request"},
			{with2("forwardedProps", fields{"model": "none"}), u, 404, "model_not_found"},
			{with2("messages", []fields{{"id": "1", "role": "system", "content": "x"}}), u, 422, "bad_messages"},
			{with2("resume", []fields{{"interruptId": "t1-r1-c1-g1", "status": "cancelled"}}), u, 404, "no_session"},
			{thread("g 2", said("1", "Hi")), u, 400, "bad_id"},
			{`{"threadId":`, u, 400, "bad_request"},
			{thread("g-2", said("1", "Hi")), with("Authorization", "Bearer viewer-token"), 403, "forbidden"},
			{thread("g-2", said("1", "Hi")), with("Authorization", "Bearer wrong"), 401, "wrong_token"},
		} {
			g.do(http.MethodPost, "/api/ag-ui", c.body, c.as).problem(t, c.status, c.code)
		}
	})
}

func TestAThreadOfAGUIDecides(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		stamp, err := tool.Func("stamp", "Stamps.", func(_ context.Context, in struct {
			N int `json:"n"`
		},
		) (string, error) {
			return fmt.Sprint("stamp ", in.N), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer w.NodeWithTools(actor.Config{Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }}, worker.Config{}, stamp).Drain(w.T)
		g := w.gateway(func(c *gateway.Config) {
			c.Defaults = events.Config{Model: "m", ModelData: []byte(asking), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}
			c.Access = people.Access{Loopback: true, People: []byte(staff())}
		})
		u, a := with("Authorization", "Bearer user-token"), with("Authorization", "Bearer approver-token")
		hi := said("1", "Stamp")
		first := g.agui(thread("g-1", hi), u)
		if first.outcome != "interrupt" || len(first.asked) != 2 || len(first.messages) != 2 {
			t.Fatalf("first %+v", first)
		}
		if again := g.agui(thread("g-1", hi), u); again.outcome != "interrupt" || len(again.asked) != 2 {
			t.Errorf("again %+v", again)
		}
		resume := func(payloads ...any) fields {
			body := thread("g-1", hi)
			var all []fields
			for i, p := range payloads {
				all = append(all, fields{"interruptId": first.asked[i].ID, "status": "resolved", "payload": p})
			}
			body["resume"] = all
			return body
		}
		yes, no := fields{"approved": true, "editedArgs": fields{"n": 7}}, fields{"approved": false, "reason": "why not"}
		g.do(http.MethodPost, "/api/ag-ui", resume(yes, no), u).problem(t, http.StatusForbidden, "forbidden")
		g.do(http.MethodPost, "/api/ag-ui", resume(yes), a).problem(t, http.StatusConflict, "partial_resume")
		g.do(http.MethodPost, "/api/ag-ui", resume(yes, fields{}), a).problem(t, http.StatusUnprocessableEntity, "bad_resume")
		g.do(http.MethodPost, "/api/ag-ui", thread("g-1", hi, said("2", "x")), u).problem(t, http.StatusConflict, "busy")
		decided := g.agui(resume(yes, no), a)
		if !strings.HasPrefix(decided.text, "stamp 7 and ") || !strings.Contains(decided.text, "why not") || decided.outcome != "success" {
			t.Errorf("decided %+v", decided)
		}
		if calls := fmt.Sprint(decided.messages); !strings.Contains(calls, `{"n":7}`) {
			t.Errorf("the messages after other arguments: %s", calls)
		}
		var transcript struct{ Changed map[string]report.Change }
		g.ok(http.MethodGet, "/api/sessions/g-1/transcript", nil, u).in(t, &transcript)
		if c := transcript.Changed; len(c) != 1 || string(c["call_1_1"].Input) != `{"n":7}` || c["call_1_1"].By != "approver (claimed)" {
			t.Errorf("the transcript says that these were changed: %+v", c)
		}
		if again := g.agui(resume(yes, no), a); again.text != decided.text || len(again.types) != len(decided.types) {
			t.Errorf("the same answers again: %+v", again)
		}
		g.do(http.MethodPost, "/api/ag-ui", resume(no, no), a).problem(t, http.StatusConflict, "already_decided")
	})
}

// TestARetriedDecisionIsAboutWhatItDecided repeats a decision that names the call while another question about the call is
// pending.
func TestARetriedDecisionIsAboutWhatItDecided(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g, drain := w.asksTwice()
		defer drain()
		g.agui(thread("g-1", said("1", "Stamp")))
		for range 2 {
			g.ok(http.MethodPost, "/api/approvals/g-1/call_1_1", fields{"decision": "approve", "input": fields{"n": 13}}, with("Idempotency-Key", "0123456789-retry-1"))
		}
	})
}

// TestAResumeOfAGUIIsAboutWhatWasShown has another person change the arguments of a call before a run answers.
func TestAResumeOfAGUIIsAboutWhatWasShown(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g, drain := w.asksTwice()
		defer drain()
		hi := said("1", "Stamp")
		first := g.agui(thread("g-1", hi))
		g.ok(http.MethodPost, "/api/approvals/g-1/t1-r1-c1-g2", fields{"decision": "approve", "input": fields{"n": 13}})
		resume := func(id string) fields {
			body := thread("g-1", hi)
			body["resume"] = []fields{{"interruptId": id, "status": "resolved", "payload": fields{"approved": true}}}
			return body
		}
		stale := first.asked[0].ID
		question, _, _ := strings.Cut(stale, ".")
		g.do(http.MethodPost, "/api/ag-ui", resume(stale)).problem(t, http.StatusConflict, "changed")
		g.do(http.MethodPost, "/api/ag-ui", resume(question)).problem(t, http.StatusUnprocessableEntity, "bad_resume")
		now := g.agui(thread("g-1", hi)) // as the problem says
		if len(now.asked) != 1 || now.asked[0].Message != `stamp {"n":13}` || now.asked[0].Metadata.Arguments.N != 13 {
			t.Fatalf("first %+v\nnow %+v", first, now)
		}
		if u := g.agui(resume(now.asked[0].ID)); u.text != "stamp 13" || u.outcome != "success" {
			t.Errorf("%+v", u)
		}
	})
}

// TestAnAnswerOfAGUIChangesWhatTheOthersAreAbout edits the arguments of a call in one answer, and approves the old ones in another.
func TestAnAnswerOfAGUIChangesWhatTheOthersAreAbout(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g, drain := w.asksTwice()
		defer drain()
		body := thread("g-1", said("1", "Stamp"))
		first := g.agui(body)
		body["resume"] = []fields{
			{"interruptId": first.asked[0].ID, "status": "resolved", "payload": fields{"approved": true, "editedArgs": fields{"n": 7}}},
			{"interruptId": first.asked[1].ID, "status": "resolved", "payload": fields{"approved": true}},
		}
		g.do(http.MethodPost, "/api/ag-ui", body).problem(t, http.StatusConflict, "changed")
		if now := g.agui(thread("g-1", said("1", "Stamp"))); len(now.asked) != 1 || now.asked[0].Message != "may it?" || now.asked[0].Metadata.Arguments.N != 7 {
			t.Errorf("%+v", now)
		}
	})
}

func TestARunOfAGUIContinuesAtAnotherGatewayWhileProcessesDie(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		late := strings.Replace(long, "chunk: 5", "chunk: 5\n    delay: 300ms", 1) // so that the reader is there in time
		defaults := func(c *gateway.Config) { c.Defaults = events.Config{Model: "m", ModelData: []byte(late)} }
		node := w.slowNode("n1")
		defer func() { node.Drain(w.T) }()
		g := w.gateway(defaults)
		time.AfterFunc(1500*time.Millisecond, g.pipe.cut)
		half := g.agui(thread("g-1", said("1", "Los")))
		want := "Los: " + longText
		if half.text == "" || half.outcome != "" || !strings.HasPrefix(want, half.text) {
			t.Errorf("half %+v", half)
		}
		g.stop()
		node.Crash(w.T)
		node = w.slowNode("n2")
		g = w.gateway(defaults)
		time.AfterFunc(1700*time.Millisecond, g.stop)
		if stopped := g.agui(thread("g-1", said("1", "Los"), fields{"id": "t1-r1-a1", "role": "assistant", "content": half.text})); stopped.code != "reconnect" {
			t.Errorf("a gateway stopped: %+v", stopped)
		}
		g = w.gateway(defaults)
		if rest := g.agui(thread("g-1", said("1", "Los"))); rest.text != want || rest.outcome != "success" || len(rest.messages) != 1 {
			t.Errorf("rest %+v, want %q", rest, want)
		}
		answered := make(chan struct{})
		time.AfterFunc(time.Second, func() {
			defer close(answered)
			g.ok(http.MethodPost, "/api/sessions/g-1/cancel", fields{})
		})
		if stopped := g.agui(thread("g-1", said("1", "Los"), said("2", "Halt"))); stopped.outcome != "cancelled" {
			t.Errorf("cancelled %+v", stopped)
		}
		<-answered
	})
}
