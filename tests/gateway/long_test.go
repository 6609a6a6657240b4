package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/tool"
)

// stampsFirst asks for decisions in its first turns, and then only answers. It loses the call of the second one.
const stampsFirst = `replies:
  - calls: [{name: stamp, input: {n: 1}}]
  - text: Stamped
  - calls: [{name: lose, input: {}}]
  - text: Lost
  - text: Hello, world
    repeat: true
`

// most is how many messages a gateway may get for a request. Reading a session takes up to 500, the maximum number of
// entries after a snapshot.
const most = 2000

// TestWhatRequestsReadDoesNotGrowWithASession counts the messages that a gateway gets from the server for requests about a
// session of more than 5,000 entries.
func TestWhatRequestsReadDoesNotGrowWithASession(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		begun, killed := make(chan struct{}), make(chan struct{})
		lose, err := tool.Func("lose", "Loses its worker.", func(context.Context, struct{}) (string, error) {
			close(begun)
			<-killed
			return "too late", nil
		})
		if err != nil {
			w.T.Fatal(err)
		}
		node := w.stamps(lose)
		g := w.gateway(func(c *gateway.Config) {
			c.Defaults = events.Config{Model: "m", ModelData: []byte(stampsFirst), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}
		})
		var c struct{ ID string }
		g.ok(http.MethodPost, "/v1/conversations", fields{}).in(t, &c)
		id := strings.TrimPrefix(c.ID, "conv_")
		var first, old response
		g.ok(http.MethodPost, "/v1/responses", fields{"conversation": c.ID, "input": "Turn 1"}).in(t, &first)
		yes := []fields{{"type": "mcp_approval_response", "approval_request_id": "mcpr_t1-r1-c1-g1", "approve": true}}
		decision := fields{"previous_response_id": first.ID, "input": yes}
		g.ok(http.MethodPost, "/v1/responses", decision, with("Idempotency-Key", "0123456789-decides")).in(t, &first)
		g.ok(http.MethodPost, "/v1/responses", fields{"conversation": c.ID, "input": "Turn 2"})
		g.ok(http.MethodPost, "/api/approvals/"+id+"/t2-r1-c1-g1", fields{"decision": "approve"})
		<-begun
		node.Kill()
		close(killed)
		defer w.stamps().Drain(w.T)

		s, err := w.Client.Attach(w.Ctx, content.SessionID(id))
		if err != nil {
			t.Fatal(err)
		}
		turns := 2
		for ; s.Head().Seq < 5_000; turns++ {
			if turns == 700 {
				g.ok(http.MethodPost, "/v1/responses", fields{"conversation": c.ID, "input": "Turn 701"}, with("Idempotency-Key", "0123456789-retries")).in(t, &old)
			} else if _, err := s.RunText(w.Ctx, fmt.Sprint("Turn ", turns+1)); err != nil {
				t.Fatal(err)
			}
		}
		_ = s.Close(w.Ctx)
		// the messages of the newest turns, as a new client has them
		var lately struct{ Messages []fields }
		g.ok(http.MethodGet, "/api/chat/"+id, nil).in(t, &lately)
		if n := len(lately.Messages); n != 200 {
			t.Fatalf("%d messages", n)
		}
		say := chatOf(id, append(lately.Messages, says("msg-of-the-chat-1", "More"))...)
		last := "/v1/conversations/" + c.ID + "/items"
		middle := fmt.Sprintf("msg_%d_1_1_0", turns/2)
		var page struct{ Data []struct{ ID string } }
		g.ok(http.MethodGet, last+"?order=asc&limit=1&after="+middle, nil).in(t, &page)
		for _, r := range []struct {
			what, method, path string
			body               any
			key                string
			has                string
		}{
			{"a session", http.MethodGet, "/api/sessions/" + id, nil, "", id},
			{"an old response", http.MethodGet, "/v1/responses/" + first.ID, nil, "", "Stamped"},
			{"its stream", http.MethodGet, "/v1/responses/" + first.ID + "?stream=true", nil, "", "response.completed"},
			{"a response in the middle", http.MethodGet, fmt.Sprintf("/v1/responses/resp_%s.%d", id, turns/2), nil, "", "Hello, world"},
			{"the latest response", http.MethodGet, fmt.Sprintf("/v1/responses/resp_%s.%d", id, turns), nil, "", "Hello, world"},
			{"a response that is not", http.MethodGet, fmt.Sprintf("/v1/responses/resp_%s.%d", id, turns+1), nil, "", "response_not_found"},
			{"a decision again", http.MethodPost, "/v1/responses", decision, "0123456789-decides", "Stamped"},
			{"an input again", http.MethodPost, "/v1/responses", fields{"conversation": c.ID, "input": "Turn 701"}, "0123456789-retries", old.ID},
			{"a new input", http.MethodPost, "/v1/responses", fields{"conversation": c.ID, "input": "New"}, "0123456789-is-new", "Hello, world"},
			{"a conversation", http.MethodGet, "/v1/conversations/" + c.ID, nil, "", "created_at"},
			{"the newest items", http.MethodGet, last, nil, "", "Hello, world"},
			{"items before one", http.MethodGet, last + "?after=" + middle, nil, "", fmt.Sprint("Turn ", turns/2)},
			{"items after one", http.MethodGet, last + "?order=asc&after=" + middle, nil, "", fmt.Sprint("Turn ", turns/2+1)},
			{"the first items", http.MethodGet, last + "?order=asc", nil, "", "Turn 1"},
			{"an item", http.MethodGet, last + "/" + middle, nil, "", "Hello, world"},
			{"what a user said", http.MethodGet, last + "/" + page.Data[0].ID, nil, "", fmt.Sprint("Turn ", turns/2+1)},
			{"an old question", http.MethodGet, last + "/mcpr_t1-r1-c1-g1", nil, "", "stamp"},
			{"the messages of a chat", http.MethodGet, "/api/chat/" + id, nil, "", "Hello, world"},
			{"a chat that has lost the end", http.MethodPost, "/api/chat", say, "", "history_differs"},
			{"a decision of a chat again", http.MethodPost, "/api/chat", chatOf(id, answered("t1", fields{
				"type": "dynamic-tool", "toolCallId": "t1-r1-c1", "state": "approval-responded", "approval": fields{"id": "t1-r1-c1-g1", "approved": true},
			})), "0123456789-of-chat", "Stamped"},
			{"a thread", http.MethodPost, "/api/ag-ui", thread(id), "", "RUN_FINISHED"},
			{"an answer of a thread again", http.MethodPost, "/api/ag-ui", fields{
				"threadId": id, "runId": "r", "messages": []fields{},
				"resume": []fields{{"interruptId": "t1-r1-c1-g1." + tool.Digest([]byte(`{"n":1}`)), "status": "resolved", "payload": fields{"approved": true}}},
			}, "0123456789-resumes", "Stamped"},
			{"an approval that was decided", http.MethodGet, "/api/approvals/" + id + "/t1-r1-c1-g1", nil, "", "approved by"},
			{"an approval of a call that was lost", http.MethodGet, "/api/approvals/" + id + "/t2-r1-c1-g1", nil, "", `"state":"dead"`},
			{"a call by its ID", http.MethodGet, "/api/approvals/" + id + "/call_1_1", nil, "", "approved by"},
			{"an approval that is not", http.MethodGet, "/api/approvals/" + id + "/call_x", nil, "", "no_call"},
			{"an approval of a round that is not", http.MethodGet, "/api/approvals/" + id + "/t1-r7-c1-g1", nil, "", "no_call"},
			{"a decision too late", http.MethodPost, "/api/approvals/" + id + "/t1-r1-c1-g1", fields{"decision": "deny"}, "0123456789-too-late", "already decided: approved"},
			{"dead letters", http.MethodGet, "/api/dead", nil, "", `"call":"call_3_1"`},
			{"a call, explained", http.MethodGet, "/api/sessions/" + id + "/calls/call_1_1", nil, "", "stamp 1"},
			{"a call that was lost, explained", http.MethodGet, "/api/sessions/" + id + "/calls/t2-r1-c1-g1", nil, "", "Turn 2"},
			{"the newest items of the transcript", http.MethodGet, "/api/sessions/" + id + "/transcript?limit=200", nil, "", "Hello, world"},
			{"the first items of the transcript", http.MethodGet, "/api/sessions/" + id + "/transcript?limit=200&before=200", nil, "", `"n":1`},
			{"entries in the middle", http.MethodGet, "/api/sessions/" + id + "/entries?after=2500&limit=10", nil, "", `"seq":2501`},
		} {
			var change []request
			if r.key != "" {
				change = append(change, with("Idempotency-Key", r.key))
			}
			before := g.nats.Stats().InMsgs
			resp, err := g.send(r.method, r.path, r.body, change...)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			read := g.nats.Stats().InMsgs - before
			if err != nil || !strings.Contains(string(body), r.has) {
				t.Errorf("%s: %d %.300s, %v", r.what, resp.StatusCode, body, err)
			}
			if read > most {
				t.Errorf("%s: the gateway got %d messages", r.what, read)
			}
		}

		// a client that has the newest turns continues
		g.ok(http.MethodGet, "/api/chat/"+id, nil).in(t, &lately)
		resp, err := g.send(http.MethodPost, "/api/chat", chatOf(id, append(lately.Messages, says("msg-of-the-chat-2", "More"))...)) //nolint:bodyclose // read closes it
		if err != nil {
			t.Fatal(err)
		}
		var more chunks
		if more.read(t, resp); more.text != "Hello, world" {
			t.Errorf("%+v", more)
		}
	})
}
