package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/jetstream"
)

// TestBadInputSaysWhatToDo sends bad requests. Each must get a problem that says what to do, and change nothing.
func TestBadInputSaysWhatToDo(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.stamps().Drain(w.T)
		g := w.gateway(func(c *gateway.Config) {
			c.Defaults = events.Config{Model: "m", ModelData: []byte(asking), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}
		})
		id, other := g.open(map[string]any{"text": "Stamp"}), g.open(map[string]any{"text": "Stamp"})
		w.Until(id, events.KindApprovalRequired)
		w.Until(other, events.KindApprovalRequired)
		events := "/api/sessions/" + string(id) + "/events"
		place := func(s content.SessionID) string {
			var shown struct{ Cursor string }
			g.ok(http.MethodGet, "/api/sessions/"+string(s), nil).in(t, &shown)
			return shown.Cursor
		}
		before, foreign := place(id), place(other)
		_, hash, _ := strings.Cut(before, ".")
		for _, bad := range []struct {
			what, method, path string
			body               any
			change             request
			status             int
			code               string
		}{
			{"an unknown session", http.MethodGet, "/api/sessions/none", nil, nil, http.StatusNotFound, "no_session"},
			{"input for an unknown session", http.MethodPost, "/api/sessions/none/input", fields{"text": "x"}, nil, http.StatusNotFound, "no_session"},
			{"no token", http.MethodGet, "/api/sessions", nil, func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized, "no_token"},
			{"a wrong token", http.MethodGet, "/api/sessions", nil, with("Authorization", "Bearer not-this-one-at-all"), http.StatusUnauthorized, "wrong_token"},
			{"no cursor", http.MethodGet, events, nil, with("Last-Event-ID", "yesterday"), http.StatusBadRequest, "bad_cursor"},
			{"a cursor of the future", http.MethodGet, events, nil, with("Last-Event-ID", "999."+hash), http.StatusConflict, "no_place"},
			{"a cursor of another session", http.MethodGet, events, nil, with("Last-Event-ID", foreign), http.StatusConflict, "no_place"},
			{"a body that ends early", http.MethodPost, "/api/sessions/" + string(id) + "/input", `{"text": "x`, nil, http.StatusBadRequest, "bad_request"},
			{"no JSON", http.MethodPost, "/api/sessions/" + string(id) + "/input", "x", nil, http.StatusBadRequest, "bad_request"},
			{"a short key", http.MethodPost, "/api/sessions/" + string(id) + "/input", fields{"text": "x"}, with("Idempotency-Key", "1"), http.StatusBadRequest, "bad_key"},
			{"no approval", http.MethodPost, "/api/approvals/" + string(id) + "/t9-r1-c1", fields{"decision": "approve"}, nil, http.StatusNotFound, "no_call"},
		} {
			t.Log(bad.what)
			change := []request{}
			if bad.change != nil {
				change = append(change, bad.change)
			}
			g.do(bad.method, bad.path, bad.body, change...).problem(t, bad.status, bad.code)
		}
		if now := place(id); now != before {
			t.Errorf("the session is at %s, and was at %s", now, before)
		}

		// Of two decisions at once, one counts.
		var list struct {
			Approvals []struct{ Session, ID string }
		}
		g.ok(http.MethodGet, "/api/approvals", nil).in(t, &list)
		i := slices.IndexFunc(list.Approvals, func(a struct{ Session, ID string }) bool { return a.Session == string(id) })
		path := "/api/approvals/" + list.Approvals[i].Session + "/" + list.Approvals[i].ID
		if a := g.ok(http.MethodGet, path, nil); !strings.Contains(string(a.body), `"state":"approval"`) {
			t.Errorf("a call that waits for a decision: %s", a.body)
		}
		answers := make(chan answer)
		for _, decision := range []string{"approve", "deny"} {
			go func() { answers <- g.do(http.MethodPost, path, fields{"decision": decision}) }()
		}
		one, two := <-answers, <-answers
		if one.status > two.status {
			one, two = two, one
		}
		if one.status != http.StatusOK {
			t.Errorf("neither counts: %s, %s", one.body, two.body)
		}
		two.problem(t, http.StatusConflict, "already_decided")
		g.do(http.MethodPost, path, fields{"decision": "approve"}).problem(t, http.StatusConflict, "already_decided")
	})
}

// TestAGatewayThatLosesNATSSaysSo has a gateway without NATS refuse requests and end its streams, whose readers continue at another
// one.
func TestAGatewayThatLosesNATSSaysSo(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g, other := w.gateway(), w.gateway()
		id := g.open(map[string]any{"text": "Hi"})
		w.Until(id, events.KindTurnFinished)
		f, err := g.follow(id, "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.close()
		seen := 0
		read := func(f *feed) (e event, ended bool) {
			e, err := f.next()
			if e.kind == "entry" {
				seen++
			}
			return e, err != nil
		}
		for e, ended := read(f); !strings.Contains(e.data, string(events.KindTurnFinished)); e, ended = read(f) {
			if ended {
				t.Fatal("the stream ended")
			}
		}
		g.nats.Close()
		var last event
		for {
			e, ended := read(f)
			if ended {
				break
			}
			last = e
		}
		if last.kind != "trouble" || !strings.Contains(last.data, `"do":`) {
			t.Errorf("the stream ended with %+v", last)
		}
		for _, path := range []string{"/api/sessions", "/api/sessions/" + string(id), "/api/approvals", "/v1/models", "/api/usage"} {
			a := g.do(http.MethodGet, path, nil)
			if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "no_nats") {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
		other.ok(http.MethodPost, "/api/sessions/"+string(id)+"/input", map[string]any{"text": "And now?"})
		again, err := other.follow(id, f.last)
		if err != nil {
			t.Fatal(err)
		}
		defer again.close()
		for turns := 0; turns < 1; {
			e, ended := read(again)
			if ended {
				t.Fatal("the stream ended")
			}
			var line struct{ Seq int }
			if e.kind == "entry" {
				if e.in(t, &line); line.Seq != seen {
					t.Fatalf("entry %d is the %dth", line.Seq, seen)
				}
				if strings.Contains(e.data, string(events.KindTurnFinished)) {
					turns++
				}
			}
		}
	})
}

// TestNoAnswerIsAProblem has no node that could open a session.
func TestNoAnswerIsAProblem(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway()
		defer g.stop()
		for path, body := range map[string]fields{
			"/api/sessions": {}, "/v1/conversations": {}, "/v1/responses": {"input": "hi"},
			"/v1/chat/completions": {"messages": []fields{{"role": "user", "content": "hi"}}},
		} {
			if a := g.do(http.MethodPost, path, body); a.status != http.StatusGatewayTimeout {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	})
}

// TestASessionThatCannotBeReadHidesNoOther has its journal end with a message that is no entry.
func TestASessionThatCannotBeReadHidesNoOther(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway()
		defer g.stop()
		w.opened("broken", "ann")
		if err := g.nats.Publish("turnlog.journal.broken", []byte("no entry")); err != nil {
			t.Fatal(err)
		}
		for _, list := range []*jetstream.List{w.Cell.Approvals(), w.Cell.DeadLetters()} {
			if _, err := list.Note(w.Ctx, "broken"); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{"/api/sessions", "/api/approvals", "/api/dead", "/api/usage"} {
			g.ok(http.MethodGet, path, nil)
		}
	})
}
