package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// says is a message of a user.
func says(id, text string) fields {
	return fields{"id": id, "role": "user", "parts": []fields{{"type": "text", "text": text}}}
}

// answered is a message of the assistant, of which gateways read only decisions.
func answered(turn string, parts ...fields) fields {
	return fields{"id": turn, "role": "assistant", "parts": append([]fields{}, parts...)}
}

func chatOf(id string, messages ...fields) fields {
	return fields{"id": id, "trigger": "submit-message", "messages": messages}
}

// chunks are those of a stream, by their types, and what they add up to.
type chunks struct {
	types  []string
	text   string
	id     string
	asked  []string // approvals
	finish string
	meta   struct{ FinishReason string }
	whole  bool // it ended correctly
}

func (c *chunks) read(t testing.TB, resp *http.Response) {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	if got := resp.Header.Get("X-Vercel-Ai-Ui-Message-Stream"); resp.StatusCode != http.StatusOK || got != "v1" {
		t.Errorf("%d, stream %q", resp.StatusCode, got)
	}
	*c = chunks{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if c.whole = data == "[DONE]"; c.whole {
			continue
		}
		var e struct {
			Type, Delta, MessageID, ApprovalID, FinishReason string
			MessageMetadata                                  json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			continue // the connection broke
		}
		c.types = append(c.types, e.Type)
		switch e.Type {
		case "start":
			c.id = e.MessageID
		case "text-delta":
			c.text += e.Delta
		case "reset-step":
			c.text = ""
		case "tool-approval-request":
			c.asked = append(c.asked, e.ApprovalID)
		case "finish":
			c.finish = e.FinishReason
			_ = json.Unmarshal(e.MessageMetadata, &c.meta)
		}
	}
}

// chat sends a request and reads the stream that answers it.
func (s *service) chat(body fields, change ...request) (c chunks) {
	s.w.T.Helper()
	resp, err := s.send(http.MethodPost, "/api/chat", body, change...) //nolint:bodyclose // read closes it
	if err != nil {
		s.w.T.Fatal(err)
	}
	c.read(s.w.T, resp)
	return c
}

func TestAChatOfTheAISDKIsASession(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway(func(c *gateway.Config) { c.Access = people.Access{Loopback: true, People: []byte(staff())} })
		u, other := with("Authorization", "Bearer user-token"), with("Authorization", "Bearer other-token")
		hi, more := says("message-000000001", "Hi"), says("message-000000002", "More")
		first := g.chat(chatOf("c-1", hi), u)
		if first.text != "Hello, world" || first.id != "turn-1" || first.finish != "stop" || !first.whole || first.meta.FinishReason != "completed" {
			t.Fatalf("first %+v", first)
		}
		if again := g.chat(chatOf("c-1", hi), u); again.text != first.text || again.id != "turn-1" {
			t.Errorf("the same message again: %+v", again)
		}
		second := g.chat(chatOf("c-1", hi, answered("turn-1"), more), u)
		if second.text != "Hello, world" || second.id != "turn-2" {
			t.Errorf("second %+v", second)
		}
		if again := g.chat(fields{"id": "c-1", "message": more}, u); again.id != "turn-2" {
			t.Errorf("the same message again, alone: %+v", again)
		}
		if third := g.chat(fields{"id": "c-1", "message": says("m3", "And")}, u); third.id != "turn-3" {
			t.Errorf("alone: %+v", third)
		}
		var shown struct {
			Messages []struct {
				ID, Role string
				Parts    []struct{ Text string }
			}
		}
		g.ok(http.MethodGet, "/api/chat/c-1", nil, u).in(t, &shown)
		if m := shown.Messages; len(m) != 6 || m[0].ID != "message-000000001" || m[2].Parts[0].Text != "More" || m[3].ID != "turn-2" || m[3].Role != "assistant" {
			t.Errorf("messages %+v", shown)
		}
		for _, c := range []struct {
			body   any
			as     request
			status int
			code   string
		}{
			{chatOf("c-1", hi, answered("turn-1"), says("message-000000003", "Edited")), u, 409, "history_differs"},
			{chatOf("c-1", says("message-000000001", "Edited")), u, 409, "history_differs"},
			{chatOf("c-2", hi, answered("turn-1"), more), u, 409, "history_differs"},
			{fields{"id": "c-1", "trigger": "regenerate-message", "messages": []fields{hi}}, u, 409, "no_forks"},
			{chatOf("c-1", hi), other, 404, "no_session"},
			{chatOf("c-1", says("message-000000009", "Hi")), other, 409, "session_exists"},
			{chatOf("c-3", hi), with("Authorization", "Bearer viewer-token"), 403, "forbidden"},
			{chatOf("c-1", hi, answered("turn-1")), u, 422, "bad_messages"},
			{chatOf("c-1"), u, 422, "bad_messages"},
			{chatOf("c 1", hi), u, 400, "bad_id"},
			{`{"id":"c-1","messages":[`, u, 400, "bad_request"},
			{fields{"id": "c-1", "messages": []fields{hi}, "tools": 1}, u, 422, "bad_request"},
			{fields{"id": "c-4", "messages": []fields{hi}, "model": "none"}, u, 404, "model_not_found"},
			{fields{"id": "c-1", "message": says("m4", "And"), "model": "none"}, u, 400, "model_differs"},
			{chatOf("c-4", hi), with("Authorization", "Bearer wrong"), 401, "wrong_token"},
			{chatOf("c-4", hi), with("Origin", "https://example.com"), 403, "cross_origin"},
		} {
			g.do(http.MethodPost, "/api/chat", c.body, c.as).problem(t, c.status, c.code)
		}
		g.do(http.MethodGet, "/api/chat/c-1", nil, other).problem(t, http.StatusNotFound, "no_session")
		g.do(http.MethodGet, "/api/chat/c-1/stream", nil, other).problem(t, http.StatusNotFound, "no_session")
		g.do(http.MethodPost, "/api/chat/c-1/stop", nil, other).problem(t, http.StatusNotFound, "no_session")
		if a := g.do(http.MethodGet, "/api/chat/c-1/stream", nil, u); a.status != http.StatusNoContent {
			t.Errorf("nothing runs: %d %s", a.status, a.body)
		}
	})
}

func TestAChatOfTheAISDKDecides(t *testing.T) {
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
		hi := says("message-000000001", "Stamp")
		c := g.chat(chatOf("c-1", hi), u)
		if len(c.asked) != 2 || c.finish != "tool-calls" || !c.whole {
			t.Fatalf("asked %+v", c)
		}
		decide := func(yes ...bool) fields {
			var parts []fields
			for i, y := range yes {
				parts = append(parts, fields{"type": "dynamic-tool", "state": "approval-responded", "approval": fields{"id": c.asked[i], "approved": y, "reason": "why not"}})
			}
			return chatOf("c-1", hi, answered("turn-1", parts...))
		}
		waiting := g.ok(http.MethodGet, "/api/chat/c-1/stream", nil, u)
		if !strings.Contains(string(waiting.body), c.asked[1]) || !strings.HasSuffix(string(waiting.body), "data: [DONE]\n\n") {
			t.Errorf("while it waits: %s", waiting.body)
		}
		g.do(http.MethodPost, "/api/chat", decide(true), u).problem(t, http.StatusForbidden, "forbidden")
		g.do(http.MethodPost, "/api/chat", chatOf("c-1", hi, answered("turn-1"), says("message-000000002", "x")), u).problem(t, http.StatusConflict, "busy")
		want := []string{
			"start", "tool-approval-response", "tool-approval-request", "tool-approval-response", "tool-output-denied", "tool-output-available", "finish-step",
			"start-step", "text-start", "text-delta", "text-end", "finish",
		}
		both := g.chat(decide(true, false), a)
		slices.Sort(both.types[4:6]) // in either order
		slices.Reverse(both.types[4:6])
		if !slices.Equal(both.types, want) || !strings.HasPrefix(both.text, "stamp 1 and ") || !strings.Contains(both.text, "why not") || both.id != "turn-1" {
			t.Errorf("decided %+v, want %v", both, want)
		}
		if again := g.chat(decide(true, false), a); again.text != both.text || len(again.types) != len(want) {
			t.Errorf("the same decisions again: %+v", again)
		}
		g.do(http.MethodPost, "/api/chat", decide(true, true), a).problem(t, http.StatusConflict, "already_decided")
		c.asked[1] = "t1-r7-c1-g1"
		g.do(http.MethodPost, "/api/chat", decide(true, true), a).problem(t, http.StatusConflict, "no_approval")
		c.asked[0] = "x"
		g.do(http.MethodPost, "/api/chat", decide(true), a).problem(t, http.StatusUnprocessableEntity, "bad_messages")
		g.do(http.MethodPost, "/api/chat", chatOf("none", hi, answered("turn-1", decide(true)["messages"].([]fields)[1]["parts"].([]fields)...)), a).problem(t, http.StatusNotFound, "no_session")
	})
}

func TestAMessageOfTheAISDKContinuesAtAnotherGatewayWhileProcessesDie(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		late := strings.Replace(long, "chunk: 5", "chunk: 5\n    delay: 300ms", 1) // so that the reader is there in time
		defaults := func(c *gateway.Config) { c.Defaults = events.Config{Model: "m", ModelData: []byte(late)} }
		node := w.slowNode("n1")
		defer func() { node.Drain(w.T) }()
		g := w.gateway(defaults)
		time.AfterFunc(1500*time.Millisecond, g.pipe.cut)
		half := g.chat(chatOf("c-1", says("message-000000001", "Los")))
		want := "Los: " + longText
		if half.text == "" || half.whole || !strings.HasPrefix(want, half.text) {
			t.Errorf("half %+v", half)
		}
		g.stop()
		node.Crash(w.T)
		node = w.slowNode("n2")
		for i := 0; ; i++ {
			g := w.gateway(defaults)
			resp, err := g.send(http.MethodGet, "/api/chat/c-1/stream", nil) //nolint:bodyclose // read closes it
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				time.AfterFunc(1700*time.Millisecond, g.stop)
			}
			var c chunks
			c.read(t, resp)
			if i == 0 {
				if !slices.Contains(c.types, "error") || !c.whole || c.finish != "" {
					t.Errorf("a gateway stopped: %+v", c)
				}
				continue
			}
			if c.text != want || c.finish != "stop" || c.id != half.id {
				t.Errorf("%+v, want %q", c, want)
			}
			break
		}
		g = w.gateway(defaults)
		answered := make(chan struct{})
		time.AfterFunc(time.Second, func() {
			defer close(answered)
			g.ok(http.MethodPost, "/api/chat/c-1/stop", nil)
		})
		if c := g.chat(fields{"id": "c-1", "message": says("message-000000002", "Halt")}); c.finish != "interrupted" || c.meta.FinishReason != "cancelled" || c.text == "" {
			t.Errorf("stopped %+v", c)
		}
		<-answered
	})
}

// TestAnAnswerOfAChatIsAboutWhatWasShown has another person change the arguments of a call before a chat answers.
func TestAnAnswerOfAChatIsAboutWhatWasShown(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g, drain := w.asksTwice()
		defer drain()
		var all chunks
		resp, err := g.send(http.MethodPost, "/api/chat", chatOf("chat-1", says("msg-of-the-chat-1", "Stamp"))) //nolint:bodyclose // read closes it
		if err != nil {
			t.Fatal(err)
		}
		all.read(t, resp)
		g.ok(http.MethodPost, "/api/approvals/chat-1/t1-r1-c1-g1", fields{"decision": "approve", "input": fields{"n": 13}})
		answer := func(n int) fields {
			return chatOf("chat-1", says("msg-of-the-chat-1", "Stamp"), answered("t1", fields{
				"type": "dynamic-tool", "toolCallId": "t1-r1-c1", "state": "approval-responded", "input": fields{"n": n},
				"approval": fields{"id": "t1-r1-c1-g2", "approved": true},
			}))
		}
		g.do(http.MethodPost, "/api/chat", answer(1)).problem(t, http.StatusConflict, "changed")
		if got := g.ok(http.MethodPost, "/api/chat", answer(13)); !strings.Contains(string(got.body), "stamp 13") {
			t.Errorf("%s", got.body)
		}
	})
}
