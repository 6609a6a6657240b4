package gateway

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// response has the parts of a response that these tests check.
type response struct {
	ID     string
	Status string
	Model  string
	Output []struct {
		Type, ID, Name, Output, Status, Arguments string
		Content                                   []struct{ Text string }
	}
	Usage *struct {
		Total int `json:"total_tokens"`
	}
	Previous string `json:"previous_response_id"`
}

func (r response) text() string {
	var b strings.Builder
	for _, o := range r.Output {
		for _, c := range o.Content {
			b.WriteString(c.Text)
		}
	}
	return b.String()
}

// openaiError checks that the answer is an error of OpenAI's form.
func (a answer) openaiError(t testing.TB, status int, code string) {
	t.Helper()
	var e struct {
		Error struct{ Message, Type, Code string }
	}
	a.in(t, &e)
	if a.status != status || e.Error.Code != code || e.Error.Message == "" || e.Error.Type == "" {
		t.Errorf("%d %s, want %d %s", a.status, a.body, status, code)
	}
}

type fields = map[string]any

func TestResponsesContinueTheLatestTurn(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway()
		key := with("Idempotency-Key", "0123456789-first")
		var first, again, second response
		g.ok(http.MethodPost, "/v1/responses", fields{"model": "m", "input": "Hi", "instructions": "Be brief"}, key).in(t, &first)
		g.ok(http.MethodPost, "/v1/responses", fields{"model": "m", "input": "Hi", "instructions": "Be brief"}, key).in(t, &again)
		if first.Status != "completed" || first.text() != "Hello, world" || first.Model != "m" || again.ID != first.ID {
			t.Fatalf("responses %+v, %+v", first, again)
		}
		more := fields{"previous_response_id": first.ID, "input": "More", "instructions": "Be brief"}
		key = with("Idempotency-Key", "0123456789-second")
		g.ok(http.MethodPost, "/v1/responses", more, key).in(t, &second)
		if second.Previous != first.ID || second.text() != "Hello, world" {
			t.Errorf("second response %+v", second)
		}
		session, _, _ := strings.Cut(strings.TrimPrefix(first.ID, "resp_"), ".")
		var third response
		g.ok(http.MethodPost, "/v1/responses", fields{"conversation": fields{"id": "conv_" + session}, "input": "And more"}).in(t, &third)
		g.ok(http.MethodPost, "/v1/responses", more, key).in(t, &again)
		if again.ID != second.ID || third.ID == second.ID {
			t.Errorf("the retry is %s, not %s", again.ID, second.ID)
		}
		g.do(http.MethodPost, "/v1/responses", more).openaiError(t, http.StatusConflict, "not_latest")
		g.ok(http.MethodGet, "/v1/responses/"+first.ID, nil).in(t, &again)
		if again.text() != first.text() {
			t.Errorf("it is now %+v", again)
		}
		latest := fields{"previous_response_id": third.ID, "input": "x"}
		for change, code := range map[[2]string]string{{"model", "other"}: "model_differs", {"instructions", "Be long"}: "instructions_differ"} {
			latest[change[0]] = change[1]
			g.do(http.MethodPost, "/v1/responses", latest).openaiError(t, http.StatusBadRequest, code)
			delete(latest, change[0])
		}
		g.do(http.MethodGet, "/v1/responses/resp_"+session+".9", nil).openaiError(t, http.StatusNotFound, "response_not_found")
		g.do(http.MethodGet, "/v1/responses/resp_none.1", nil).openaiError(t, http.StatusNotFound, "no_session")
		g.do(http.MethodPost, "/v1/responses", `{"input":`).openaiError(t, http.StatusBadRequest, "invalid_json")
		g.do(http.MethodPost, "/v1/responses", fields{"model": "none", "input": "x"}).openaiError(t, http.StatusNotFound, "model_not_found")
		g.do(http.MethodGet, "/v1/models", nil, with("Authorization", "Bearer wrong")).openaiError(t, http.StatusUnauthorized, "wrong_token")
		g.do(http.MethodGet, "/v1/none", nil).openaiError(t, http.StatusNotFound, "not_found")
	})
}

// openaiReader reads the stream of a response over many connections.
type openaiReader struct {
	id, text, status string
	last             int64
	events           int
}

// read reads what one connection has.
func (r *openaiReader) read(t testing.TB, resp *http.Response) {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type, Delta string
			Number      int64 `json:"sequence_number"`
			Response    response
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			continue // the connection broke
		}
		if e.Number <= r.last {
			t.Errorf("number %d after %d", e.Number, r.last)
		}
		r.last = e.Number
		r.events++
		switch e.Type {
		case "response.created":
			r.id = e.Response.ID
		case "response.output_text.delta":
			r.text += e.Delta
		case "turnlog.void":
			r.text = ""
		case "response.completed", "response.failed", "response.incomplete", "response.cancelled":
			r.status = e.Response.Status
		}
	}
}

func TestAResponseContinuesAtAnotherGatewayWhileProcessesDie(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defaults := func(c *gateway.Config) { c.Defaults = events.Config{Model: "m", ModelData: []byte(long)} }
		node := w.slowNode("n1")
		defer func() { node.Drain(w.T) }()
		g := w.gateway(defaults)
		resp, err := g.send(http.MethodPost, "/v1/responses", fields{"input": "Los", "stream": true, "background": true}) //nolint:bodyclose // read closes it
		if err != nil {
			t.Fatal(err)
		}
		r := &openaiReader{last: -1}
		time.AfterFunc(900*time.Millisecond, g.pipe.cut)
		r.read(t, resp)
		g.stop()
		node.Crash(w.T)
		node = w.slowNode("n2")
		for i := 0; r.status == "" && i < 50; i++ {
			g := w.gateway(defaults)
			resp, err := g.send(http.MethodGet, fmt.Sprintf("/v1/responses/%s?stream=true&starting_after=%d", r.id, r.last), nil) //nolint:bodyclose // read closes it
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(700*time.Millisecond, g.pipe.cut)
			r.read(t, resp)
			g.stop()
		}
		if want := "Los: " + longText; r.text != want || r.status != "completed" {
			t.Errorf("%s after %d events: %q, want %q", r.status, r.events, r.text, want)
		}
	})
}

func TestAResponseIsCancelledAndRunsWithoutItsClient(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.slowNode("n1").Drain(w.T)
		g := w.gateway(func(c *gateway.Config) { c.Defaults = events.Config{Model: "m", ModelData: []byte(long)} })
		var r, again response
		g.ok(http.MethodPost, "/v1/responses", fields{"input": "Los", "background": true}).in(t, &r)
		if r.Status != "in_progress" {
			t.Errorf("status %s", r.Status)
		}
		g.do(http.MethodPost, "/v1/responses", fields{"previous_response_id": r.ID, "input": "x"}).openaiError(t, http.StatusConflict, "busy")
		g.ok(http.MethodPost, "/v1/responses/"+r.ID+"/cancel", nil)
		id, _, _ := strings.Cut(strings.TrimPrefix(r.ID, "resp_"), ".")
		w.Until(content.SessionID(id), events.KindTurnFinished)
		g.ok(http.MethodPost, "/v1/responses/"+r.ID+"/cancel", nil).in(t, &again)
		if again.Status != "cancelled" || again.ID != r.ID {
			t.Errorf("response %+v", again)
		}
	})
}

const asking = `
replies:
  - calls: [{name: stamp, input: {n: 1}}, {name: stamp, input: {n: 2}}]
  - text: "{{(index .Results 0).Text}} and {{(index .Results 1).Text}}"
    repeat: true
`

// stamps runs a node with the tool stamp.
func (w *world) stamps(more ...tool.Tool) *turnlogtest.Process {
	stamp, err := tool.Func("stamp", "Stamps.", func(_ context.Context, in struct {
		N int `json:"n"`
	},
	) (string, error) {
		return fmt.Sprint("stamp ", in.N), nil
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return w.NodeWithTools(actor.Config{Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }}, worker.Config{}, append(more, stamp)...)
}

func TestApprovalsEndAResponseAndBeginTheNext(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.stamps().Drain(w.T)
		g := w.gateway(func(c *gateway.Config) {
			c.Defaults = events.Config{Model: "m", ModelData: []byte(asking), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}
			c.Access = people.Access{Loopback: true, People: []byte(staff())}
		})
		u, a := with("Authorization", "Bearer user-token"), with("Authorization", "Bearer approver-token")
		var r response
		g.ok(http.MethodPost, "/v1/responses", fields{"input": "Stamp"}, u).in(t, &r)
		var asked []string
		for _, o := range r.Output {
			if o.Type == "mcp_approval_request" {
				asked = append(asked, o.ID)
			}
		}
		if r.Status != "completed" || len(asked) != 2 || r.Output[2].Name != "stamp" || r.Output[2].Arguments != `{"n":1}` {
			t.Fatalf("response %+v", r)
		}
		answer := func(id string, yes bool) fields {
			return fields{"previous_response_id": r.ID, "input": []fields{{"type": "mcp_approval_response", "approval_request_id": id, "approve": yes, "reason": "why not"}}}
		}
		g.do(http.MethodPost, "/v1/responses", answer(asked[0], true), u).openaiError(t, http.StatusForbidden, "forbidden")
		g.do(http.MethodPost, "/v1/responses", fields{"previous_response_id": r.ID, "input": "x"}, u).openaiError(t, http.StatusConflict, "busy")
		var second, third response
		g.ok(http.MethodPost, "/v1/responses", answer(asked[0], true), a).in(t, &second)
		if n := len(second.Output); second.ID != r.ID+".2" || second.Previous != r.ID || second.Output[n-1].ID != asked[1] {
			t.Errorf("second %+v", second)
		}
		g.ok(http.MethodPost, "/v1/responses", answer(asked[1], false), a, with("Idempotency-Key", "0123456789-denied")).in(t, &third)
		if third.ID != r.ID+".3" || third.Status != "completed" || !strings.HasPrefix(third.text(), "stamp 1 and ") || !strings.Contains(third.text(), "why not") {
			t.Errorf("third %+v", third)
		}
		g.do(http.MethodPost, "/v1/responses", answer(asked[1], true), a).openaiError(t, http.StatusConflict, "no_approval")
		var again response
		g.ok(http.MethodGet, "/v1/responses/"+r.ID+".3", nil, u).in(t, &again)
		if again.text() != third.text() {
			t.Errorf("it is now %+v", again)
		}
		g.do(http.MethodGet, "/v1/responses/"+r.ID, nil, with("Authorization", "Bearer other-token")).openaiError(t, http.StatusNotFound, "no_session")
		g.do(http.MethodPost, "/v1/responses", fields{"input": "Stamp"}, with("Authorization", "Bearer viewer-token")).openaiError(t, http.StatusForbidden, "forbidden")
	})
}

// staff is a file of people, whose tokens are their names with "-token".
func staff() string {
	var b strings.Builder
	b.WriteString("people:\n")
	for _, p := range [][2]string{{"user", "user"}, {"other", "user"}, {"approver", "approver"}, {"viewer", "viewer"}} {
		fmt.Fprintf(&b, "  - {name: %s, role: %s, token: %q}\n", p[0], p[1], fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(p[0]+"-token"))))
	}
	return b.String()
}

// TestAConversationHasTheItemsOfItsResponses asks for decisions in a turn of several parts, and reads all of it.
func TestAConversationHasTheItemsOfItsResponses(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.stamps().Drain(w.T)
		g := w.gateway(func(c *gateway.Config) {
			c.Defaults = events.Config{Model: "m", ModelData: []byte(asking), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}
		})
		var c struct {
			ID       string
			Created  int64 `json:"created_at"`
			Metadata map[string]string
		}
		key := with("Idempotency-Key", "0123456789-talk-1")
		g.ok(http.MethodPost, "/v1/conversations", fields{"metadata": fields{"topic": "tea"}}, key).in(t, &c)
		first := c.ID
		if g.ok(http.MethodPost, "/v1/conversations", fields{"metadata": fields{"topic": "tea"}}, key).in(t, &c); c.ID != first || c.Created != time.Now().Unix() || len(c.Metadata) != 1 || c.Metadata["topic"] != "tea" {
			t.Errorf("%+v, first %s", c, first)
		}
		type list struct {
			Data  []fields
			First string `json:"first_id"`
			Last  string `json:"last_id"`
			More  bool   `json:"has_more"`
		}
		var empty list
		if a := g.ok(http.MethodGet, "/v1/conversations/"+c.ID+"/items", nil); !strings.Contains(string(a.body), `"data":[]`) {
			t.Errorf("before the first turn: %s", a.body)
		} else if a.in(t, &empty); empty.More || empty.First != "" {
			t.Errorf("%+v", empty)
		}
		var r response
		g.ok(http.MethodPost, "/v1/responses", fields{"conversation": c.ID, "input": "Stamp"}).in(t, &r)
		for len(r.Output) > 0 && r.Output[len(r.Output)-1].Type == "mcp_approval_request" {
			g.ok(http.MethodPost, "/v1/responses", fields{"previous_response_id": r.ID, "input": []fields{{
				"type": "mcp_approval_response", "approval_request_id": r.Output[len(r.Output)-1].ID, "approve": true,
			}}}).in(t, &r)
		}
		var all list
		g.ok(http.MethodGet, "/v1/conversations/"+c.ID+"/items?order=asc&limit=100", nil).in(t, &all)
		kinds, ids := map[any]int{}, map[any]bool{}
		for _, o := range all.Data {
			kinds[o["type"]]++
			ids[o["id"]] = true
			if o["type"] != "mcp_approval_request" && o["status"] != "completed" && o["status"] != "failed" {
				t.Errorf("%v is not over", o)
			}
		}
		n := len(all.Data)
		if n != len(ids) || all.Data[0]["role"] != "user" || all.Data[n-1]["role"] != "assistant" || kinds["mcp_approval_request"] < 2 || kinds["mcp_call"] != 2 || kinds["message"] < 2 {
			t.Errorf("%v: %+v", kinds, all.Data)
		}
		var paged []fields
		for after, more := "", true; more; {
			var page list
			g.ok(http.MethodGet, "/v1/conversations/"+c.ID+"/items?limit=2&after="+after, nil).in(t, &page)
			paged, after, more = append(paged, page.Data...), page.Last, page.More
		}
		slices.Reverse(paged)
		if !reflect.DeepEqual(paged, all.Data) {
			t.Errorf("pages: %+v", paged)
		}
		for _, bad := range []string{"limit=0", "limit=101", "limit=x", "order=up"} {
			g.do(http.MethodGet, "/v1/conversations/"+c.ID+"/items?"+bad, nil).openaiError(t, http.StatusBadRequest, "invalid_value")
		}
		for _, item := range []string{"msg_none", "msg_9_1_1_0", "msg_1_1_9_9", "msg_in_99_0_0", "msg_in_1_9_9", "mcpr_t9-r1-c1-g1", "x"} {
			g.do(http.MethodGet, "/v1/conversations/"+c.ID+"/items?after="+item, nil).openaiError(t, http.StatusNotFound, "item_not_found")
			g.do(http.MethodGet, "/v1/conversations/"+c.ID+"/items/"+item, nil).openaiError(t, http.StatusNotFound, "item_not_found")
		}
		g.do(http.MethodGet, "/v1/conversations/resp_x", nil).openaiError(t, http.StatusNotFound, "conversation_not_found")
		g.do(http.MethodPost, "/v1/conversations", fields{"items": []fields{{"role": "user", "content": "x"}}}).openaiError(t, http.StatusBadRequest, "unsupported_parameter")
		g.do(http.MethodPost, "/v1/conversations", fields{"metadata": fields{"owner": "eve"}}).openaiError(t, http.StatusUnprocessableEntity, "bad_metadata")
		g.do(http.MethodPost, "/v1/conversations", fields{"metadata": fields{"model": "none"}}).openaiError(t, http.StatusNotFound, "model_not_found")
		g.do(http.MethodPost, "/v1/conversations", "[").openaiError(t, http.StatusBadRequest, "invalid_json")
	})
}

func TestAChatIsASessionIfItHasAKey(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway()
		say := func(texts ...string) fields {
			var all []fields
			for i, text := range texts {
				all = append(all, fields{"role": []string{"user", "assistant"}[i%2], "content": text})
			}
			return fields{"model": "m", "messages": all}
		}
		type completion struct {
			Object  string
			Choices []struct {
				Message struct{ Content string }
				Finish  string `json:"finish_reason"`
			}
		}
		var c completion
		key := with("X-OpenWebUI-Chat-Id", "7d4f")
		first := g.ok(http.MethodPost, "/v1/chat/completions", say("Hi"), key)
		first.in(t, &c)
		if c.Object != "chat.completion" || len(c.Choices) != 1 || c.Choices[0].Message.Content != "Hello, world" || c.Choices[0].Finish != "stop" {
			t.Fatalf("completion %s", first.body)
		}
		session := first.header.Get("X-Turnlog-Session")
		second := g.ok(http.MethodPost, "/v1/chat/completions", say("Hi", "Hello, world", "More"), key)
		if got := second.header.Get("X-Turnlog-Session"); got != session || session == "" {
			t.Errorf("sessions %q, %q", session, got)
		}
		g.do(http.MethodPost, "/v1/chat/completions", say("Edited", "Hello, world", "More"), key).openaiError(t, http.StatusConflict, "history_differs")
		g.do(http.MethodPost, "/v1/chat/completions", say("### Task:\nGenerate a title"), key).openaiError(t, http.StatusUnprocessableEntity, "auxiliary_request")
		alone := g.ok(http.MethodPost, "/v1/chat/completions", say("Hi", "Hello, world", "More"))
		if alone.header.Get("X-Turnlog-Session") == session || alone.header.Get("X-Turnlog-Dropped-Messages") != "2" {
			t.Errorf("without a key: %v", alone.header)
		}
		body := say("Hi")
		body["stream"], body["stream_options"] = true, fields{"include_usage": true}
		streamed := string(g.ok(http.MethodPost, "/v1/chat/completions", body).body)
		var text strings.Builder
		for line := range strings.Lines(streamed) {
			var chunk struct {
				Choices []struct{ Delta struct{ Content string } }
			}
			if data, ok := strings.CutPrefix(line, "data: {"); ok && json.Unmarshal([]byte("{"+data), &chunk) == nil && len(chunk.Choices) > 0 {
				text.WriteString(chunk.Choices[0].Delta.Content)
			}
		}
		if text.String() != "Hello, world" || !strings.HasSuffix(streamed, "data: [DONE]\n\n") || !strings.Contains(streamed, `"total_tokens"`) {
			t.Errorf("stream %s", streamed)
		}
		if models := g.ok(http.MethodGet, "/v1/models", nil); !strings.Contains(string(models.body), `"id":"m"`) {
			t.Errorf("models %s", models.body)
		}
	})
}
