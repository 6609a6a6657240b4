package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/events"
)

func TestASessionIsOpenedFollowedAndClosed(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway()
		key := with("Idempotency-Key", "0123456789-open-1")
		id := g.open(map[string]any{"text": "Hi", "metadata": map[string]any{"ticket": 7}}, key)
		if again := g.open(map[string]any{"text": "Hi"}, key); again != id {
			t.Errorf("the retry opened %s, not %s", again, id)
		}
		f, err := g.follow(id, "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.close()
		var text strings.Builder
		for entries := 0; ; {
			e, err := f.next()
			if err != nil {
				t.Fatal(err)
			}
			switch e.kind {
			case "piece":
				var p struct{ Text string }
				e.in(t, &p)
				text.WriteString(p.Text)
			case "entry":
				entries++
				var line struct{ Seq int }
				if e.in(t, &line); line.Seq != entries || !strings.HasPrefix(e.id, fmt.Sprint(entries, ".")) {
					t.Fatalf("entry %d is %s with ID %s", entries, e.data, e.id)
				}
			}
			if strings.Contains(e.data, string(events.KindTurnFinished)) {
				break
			}
		}
		if text.String() != "Hello, world" {
			t.Errorf("text %q", text.String())
		}
		var list struct {
			Sessions []struct{ Session, State, Title string }
		}
		g.ok(http.MethodGet, "/api/sessions?search=hi", nil).in(t, &list)
		if len(list.Sessions) != 1 || list.Sessions[0].Session != string(id) || list.Sessions[0].Title != "Hi" {
			t.Errorf("sessions %+v", list)
		}
		forked := g.do(http.MethodPost, "/api/sessions/"+string(id)+"/fork", map[string]any{"entry": 2, "id": "fork", "text": "And?"})
		if forked.status != http.StatusCreated || forked.header.Get("Location") != "/api/sessions/fork" {
			t.Errorf("fork: %d %s", forked.status, forked.body)
		}
		var shownFork struct{ From, Owner string }
		g.ok(http.MethodGet, "/api/sessions/fork", nil).in(t, &shownFork)
		if shownFork.From != string(id)+"@2" || shownFork.Owner != "ops" {
			t.Errorf("the fork is %+v", shownFork)
		}
		g.do(http.MethodPost, "/api/sessions/"+string(id)+"/fork", map[string]any{"entry": 99}).problem(t, http.StatusUnprocessableEntity, "invalid_input")
		g.do(http.MethodPost, "/api/sessions/nosuch/fork", map[string]any{}).problem(t, http.StatusNotFound, "no_session")
		g.ok(http.MethodPost, "/api/sessions/"+string(id)+"/close", map[string]any{"reason": "done"})
		g.do(http.MethodPost, "/api/sessions/"+string(id)+"/input", map[string]any{"text": "more"}).problem(t, http.StatusConflict, "closed")
		var shown struct{ State, Owner, Cursor string }
		g.ok(http.MethodGet, "/api/sessions/"+string(id), nil).in(t, &shown)
		if shown.State != "closed" || shown.Owner != "ops" {
			t.Errorf("session %+v", shown)
		}
	})
}

// TestAKeyNeverActsTwice sends a command again when the session has forgotten the causes of its last entries.
func TestATurnIsInTheTraceOfItsRequest(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		id := w.gateway().open(map[string]any{"text": "Hi"}, with("Traceparent", parent))
		w.Until(id, events.KindInputQueued)
		for _, r := range w.Records(id) {
			if slices.ContainsFunc(r.Entry.Events, func(e events.Event) bool { return events.KindOf(e) == events.KindInputQueued }) && r.TraceParent != parent {
				t.Errorf("the input is in trace %q", r.TraceParent)
			}
		}
	})
}

func TestAKeyNeverActsTwice(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		node := w.drive()
		g := w.gateway()
		id := g.open(map[string]any{"text": "Hi"})
		key := with("Idempotency-Key", "0123456789-once-1")
		turns := func() int {
			w.T.Helper()
			var s struct{ Turns int }
			g.ok(http.MethodGet, "/api/sessions/"+string(id), nil).in(t, &s)
			return s.Turns
		}
		settle := func(want int) {
			w.T.Helper()
			for n := 0; turns() != want && n < 100; n++ {
				<-time.After(100 * time.Millisecond)
			}
			if n := turns(); n != want {
				t.Fatalf("%d turns, want %d", n, want)
			}
		}
		send := func(change ...request) {
			w.T.Helper()
			g.ok(http.MethodPost, "/api/sessions/"+string(id)+"/input", map[string]any{"text": "More", "on_busy": "queue"}, change...)
		}
		settle(1)
		send(key)
		for n := range 70 {
			settle(n + 2)
			send()
		}
		settle(72)
		node.Drain(w.T)
		defer w.drive().Drain(w.T)
		for range 2 {
			send(key)
		}
		g.do(http.MethodPost, "/api/sessions/"+string(id)+"/cancel", map[string]any{}).problem(t, http.StatusConflict, "nothing_to_cancel") // it is handled after those
		g.do(http.MethodPost, "/api/sessions/"+string(id)+"/cancel", map[string]any{}, key).problem(t, http.StatusUnprocessableEntity, "key_used")
		settle(72)
		send()
		settle(73)
	})
}

// TestABodyIsOptionalIfAllInItIs sends requests without a body, as curl -X POST does.
func TestABodyIsOptionalIfAllInItIs(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway()
		defer g.stop()
		var out struct{ Session string }
		g.ok(http.MethodPost, "/api/sessions", nil).in(t, &out)
		path := "/api/sessions/" + out.Session
		g.do(http.MethodPost, path+"/input", nil).problem(t, http.StatusUnprocessableEntity, "empty_input")
		g.do(http.MethodPost, path+"/calls/c/cancel", nil).problem(t, http.StatusConflict, "unknown_call")
		g.ok(http.MethodPost, path+"/fork", nil)
		g.do(http.MethodPost, path+"/cancel", nil).problem(t, http.StatusConflict, "nothing_to_cancel")
		g.ok(http.MethodPost, path+"/close", nil)
		g.do(http.MethodPost, "/api/approvals/"+out.Session+"/c", nil).problem(t, http.StatusBadRequest, "bad_request")
	})
}
