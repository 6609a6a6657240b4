package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
)

// TestAPersonWhoNeverAnswersHoldsNoCall asks an MCP client whose person never answers. The call ends, and the question is
// decided elsewhere.
func TestAPersonWhoNeverAnswersHoldsNoCall(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g, drain := stamping(t, w)
		defer drain()
		left := make(chan struct{})
		defer close(left)
		h := g.host("2025-11-25", "approver-token", func(*mcp.ElicitParams) *mcp.ElicitResult {
			<-left
			return choose("approve", "")
		})
		began := time.Now()
		r := h.call("turnlog", fields{"prompt": "Stamp"})
		if r.State != "waiting" || len(r.Pending) != 2 || r.failed {
			t.Fatalf("%+v", r)
		}
		if took := time.Since(began).Round(time.Minute); took != 30*time.Minute {
			t.Errorf("it took %v", took)
		}
		for _, p := range r.Pending {
			g.ok(http.MethodPost, "/api/approvals/"+r.Session+"/"+p.Approval, fields{"decision": "approve"}, with("Authorization", "Bearer approver-token"))
		}
		if r = h.call("turnlog", fields{"session": r.Session}); r.text != "stamp 1 and stamp 2" {
			t.Errorf("decided elsewhere: %+v", r)
		}
	})
}

// TestProgressOfMCPEndsWithItsCall continues a session after a call whose progress a client got.
func TestProgressOfMCPEndsWithItsCall(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			in(t, func(w *world) {
				defer w.drive().Drain(w.T)
				g := w.gateway()
				h := g.host(version, token, nil)
				first := h.call("turnlog", fields{"prompt": "Hi"})
				told := h.progress()
				if len(told) != 2 || !slices.Equal(h.steps, []float64{1, 2}) {
					t.Errorf("progress %q, %v", told, h.steps)
				}
				g.ok(http.MethodPost, "/api/sessions/"+first.Session+"/input", fields{"text": "More"})
				<-time.After(time.Minute)
				ended := 0
				for _, rec := range w.Records(content.SessionID(first.Session)) {
					if slices.Contains(rec.Entry.Kinds(), events.KindTurnFinished) {
						ended++
					}
				}
				if ended != 2 {
					t.Errorf("%d turns ended", ended)
				}
				if again := h.progress(); !slices.Equal(again, told) {
					t.Errorf("told after the end: %q", again[len(told):])
				}
			})
		})
	}
}

// TestAPersonHasSoManySessionsOfMCP opens more MCP sessions than a gateway keeps, as a client that never ends them
// does.
func TestAPersonHasSoManySessionsOfMCP(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway(func(c *gateway.Config) { c.Access = people.Access{Loopback: true, People: []byte(staff())} })
		send := func(body, session, person string) answer {
			return g.do(http.MethodPost, "/mcp", body, with("Accept", "application/json, text/event-stream"), with("Mcp-Session-Id", session),
				with("Authorization", "Bearer "+person))
		}
		begin := func(person string) string {
			return send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
				"", person).header.Get("Mcp-Session-Id")
		}
		pings := func(session, person string) int {
			return send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, session, person).status
		}
		other := begin("other-token")
		var all []string
		for range 100 + 10 {
			all = append(all, begin("user-token"))
		}
		synctest.Wait() // the oldest sessions end while requests run
		for i, id := range all {
			want := http.StatusOK
			if i < 10 {
				want = http.StatusNotFound
			}
			if got := pings(id, "user-token"); got != want {
				t.Errorf("session %d: status %d, want %d", i+1, got, want)
			}
		}
		if got := pings(other, "other-token"); got != http.StatusOK {
			t.Error("another person's session ended: " + strconv.Itoa(got))
		}
	})
}
