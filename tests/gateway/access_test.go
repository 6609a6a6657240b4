package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/tool"
)

// tokenOf is the token of a person here.
func tokenOf(name string) string { return "the-token-of-" + name }

// as sends a request as a person.
func as(name string) request { return with("Authorization", "Bearer "+tokenOf(name)) }

// withPeople configures a gateway with a person of each role.
func withPeople(t *testing.T) func(*gateway.Config) {
	t.Helper()
	var file strings.Builder
	file.WriteString("people:\n")
	reviews := []string{"review-*"}
	for _, p := range []people.Person{
		{Name: "ops", Role: "operator"},
		{Name: "ada", Role: "user"},
		{Name: "bob", Role: "user"},
		{Name: "vic", Role: "viewer", Agents: reviews},
		{Name: "ann", Role: "approver", Agents: reviews},
		{Name: "all", Role: "viewer"},
	} {
		entry, err := people.Entry(p, tokenOf(p.Name))
		if err != nil {
			t.Fatal(err)
		}
		file.WriteString(strings.TrimPrefix(entry, "people:\n"))
	}
	return func(c *gateway.Config) { c.Access = people.Access{People: []byte(file.String()), Loopback: true} }
}

// TestTheSessionOfAnotherPersonIsNotThere asks for another person's session in every operation.
func TestTheSessionOfAnotherPersonIsNotThere(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway(withPeople(t))
		defer g.stop()
		const script = "replies:\n  - calls: [{name: none, input: {}}]\n  - text: secret\n    repeat: true\n"
		g2 := w.gateway(withPeople(t), func(c *gateway.Config) { c.Defaults = events.Config{Model: "m", ModelData: []byte(script)} })
		defer g2.stop()
		id := g2.open(map[string]any{"id": "hers", "text": "secret"}, as("ada"))
		w.Until(id, events.KindTurnFinished)

		var doc struct {
			Paths map[string]map[string]any
		}
		g.ok(http.MethodGet, "/openapi.json", nil, as("bob")).in(t, &doc)
		type ask struct{ method, path string }
		asks := []ask{
			{http.MethodGet, "/v1/responses/resp_hers.1"},
			{http.MethodGet, "/v1/responses/resp_hers.1?stream=true"},
			{http.MethodPost, "/v1/responses/resp_hers.1/cancel"},
			{http.MethodGet, "/v1/conversations/conv_hers"},
			{http.MethodPost, "/v1/conversations/conv_hers"},
			{http.MethodDelete, "/v1/conversations/conv_hers"},
			{http.MethodGet, "/v1/conversations/conv_hers/items"},
			{http.MethodPost, "/v1/conversations/conv_hers/items"},
			{http.MethodGet, "/v1/conversations/conv_hers/items/msg_1_1_1_0"},
			{http.MethodDelete, "/v1/conversations/conv_hers/items/msg_1_1_1_0"},
			{http.MethodGet, "/api/approvals?session=hers"},
			{http.MethodGet, "/api/sessions/hers/events?after=2"},
		}
		for path, operations := range doc.Paths {
			for method := range operations {
				if strings.Contains(path, "{id}") {
					asks = append(asks, ask{strings.ToUpper(method), strings.NewReplacer("{id}", "hers", "{call}", "call_1_1", "{approval}", "t1-r1-c1-g1").Replace(path)})
				}
			}
		}
		if len(asks) < 20 {
			t.Fatalf("%d operations", len(asks))
		}
		bodies := map[string]any{
			"/input": map[string]any{"text": "x"}, "/api/approvals": map[string]any{"decision": "approve"}, "/api/dead": map[string]any{"action": "retry"},
		}
		for _, a := range asks {
			var body any
			if a.method == http.MethodPost {
				body = map[string]any{}
				for part, b := range bodies {
					if strings.Contains(a.path, part) {
						body = b
					}
				}
			}
			for _, who := range []string{"bob", "vic", "ann"} {
				got := g.do(a.method, a.path, body, as(who))
				if got.status != http.StatusNotFound || strings.Contains(string(got.body), "secret") || strings.Contains(string(got.body), "ada") {
					t.Errorf("%s: %s %s: %d %s", who, a.method, a.path, got.status, got.body)
				}
			}
		}
		for _, body := range []map[string]any{
			{"previous_response_id": "resp_hers.1", "input": "x"},
			{"conversation": "conv_hers", "input": "x"},
			{"previous_response_id": "resp_hers.1", "input": []map[string]any{{"type": "mcp_approval_response", "approval_request_id": "mcpr_t1-r1-c1-g1", "approve": true}}},
		} {
			if got := g.do(http.MethodPost, "/v1/responses", body, as("bob")); got.status != http.StatusNotFound {
				t.Errorf("%v: %d %s", body, got.status, got.body)
			}
		}
		for _, path := range []string{"/api/sessions", "/api/approvals", "/api/dead", "/api/usage"} {
			if got := g.ok(http.MethodGet, path, nil, as("bob")); strings.Contains(string(got.body), "hers") || strings.Contains(string(got.body), "ada") {
				t.Errorf("%s: %s", path, got.body)
			}
		}
	})
}

// TestWhyASessionWasDeletedIsForThoseWhoSeeAll has people read a deleted session, whose owner is no longer known.
func TestWhyASessionWasDeletedIsForThoseWhoSeeAll(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		node := w.drive()
		g := w.gateway(withPeople(t))
		defer g.stop()
		id := g.open(map[string]any{"id": "hers", "text": "hi"}, as("ada"))
		w.Until(id, events.KindParked)
		node.Drain(w.T)
		last, err := w.Cell.Journal().Last(w.Ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		k := admin.Of(w.Cell)
		if _, err := k.Delete(w.Ctx, last, events.SessionDeleted{By: "kim", Reason: "Ada is ill"}); err != nil {
			t.Fatal(err)
		}
		defer w.drive().Drain(w.T)
		for who, knows := range map[string]bool{"bob": false, "vic": false, "ada": false, "all": true, "ops": true} {
			for _, a := range []answer{
				g.do(http.MethodGet, "/api/sessions/hers", nil, as(who)), g.do(http.MethodGet, "/api/sessions/hers/export", nil, as(who)),
				g.do(http.MethodGet, "/v1/responses/resp_hers.1", nil, as(who)),
			} {
				if a.status != http.StatusGone || strings.Contains(string(a.body), "Ada is ill") != knows || strings.Contains(string(a.body), "kim") != knows {
					t.Errorf("%s: %d %s", who, a.status, a.body)
				}
			}
			if who == "bob" {
				if a := g.do(http.MethodPost, "/api/sessions", map[string]any{"id": "hers", "text": "hi"}, as(who)); a.status < 400 || strings.Contains(string(a.body), "kim") {
					t.Errorf("%s opens it: %d %s", who, a.status, a.body)
				}
			}
		}
	})
}

// TestAShortTokenIsRefused, since it can be guessed.
func TestAShortTokenIsRefused(t *testing.T) {
	t.Parallel()
	for token, ok := range map[string]bool{"x": false, strings.Repeat("x", 15): false, strings.Repeat("x", 16): true} {
		_, err := gateway.New(gateway.Config{Access: people.Access{Token: token, Operator: "ops"}})
		if ok != (err == nil) || !ok && !errors.Is(err, people.ErrAccess) {
			t.Errorf("token of %d characters: %v", len(token), err)
		}
	}
}

// TestALinkOfAnotherSiteDoesNotChangeWhoABrowserIs has another site link a logged-in browser to the gateway with a different token.
func TestALinkOfAnotherSiteDoesNotChangeWhoABrowserIs(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway(withPeople(t))
		defer g.stop()
		for _, row := range []struct{ site, cookie, want string }{
			{"cross-site", tokenOf("ada"), "ada"},
			{"same-site", tokenOf("ada"), "ada"},
			{"none", tokenOf("ada"), "bob"},
			{"", tokenOf("ada"), "bob"},
			{"cross-site", "", "bob"},
			{"cross-site", "of an earlier start", "bob"},
		} {
			a := g.do(http.MethodGet, "/?token="+tokenOf("bob"), nil, func(r *http.Request) {
				r.Header = http.Header{"Sec-Fetch-Site": {row.site}}
				if row.cookie != "" {
					r.AddCookie(&http.Cookie{Name: people.Cookie(r.Host), Value: row.cookie})
				}
			})
			is := row.cookie
			if c, err := http.ParseSetCookie(a.header.Get("Set-Cookie")); err == nil {
				is = c.Value
			}
			if is != tokenOf(row.want) || a.status != http.StatusSeeOther {
				t.Errorf("%+v: %d %v", row, a.status, a.header)
			}
		}
		// The login form puts the token into no address. A proxy's token does not become the browser's.
		form := func(token string, change ...request) answer {
			return g.do(http.MethodPost, "/", "token="+token, append([]request{func(r *http.Request) {
				r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}}
			}}, change...)...)
		}
		if a := form(tokenOf("ada")); a.status != http.StatusSeeOther || !strings.Contains(a.header.Get("Set-Cookie"), tokenOf("ada")) {
			t.Errorf("the form: %d %v", a.status, a.header)
		}
		for _, wrong := range []string{"wrong", "", tokenOf("ada") + strings.Repeat("x", 1<<20)} {
			if a := form(wrong); a.status != http.StatusUnauthorized || a.header.Get("Set-Cookie") != "" || !strings.Contains(string(a.body), "<form") {
				t.Errorf("the form with a token of %d bytes: %d %v", len(wrong), a.status, a.header)
			}
		}
		if a := form("", as("ada")); a.status != http.StatusSeeOther || a.header.Get("Set-Cookie") != "" {
			t.Errorf("with a proxy: %d %v", a.status, a.header)
		}
	})
}

// TestAReaderThatDoesNotReadIsCutOff has readers that stop reading.
func TestAReaderThatDoesNotReadIsCutOff(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		node := w.drive()
		g := w.gateway()
		defer g.stop()
		id := g.open(map[string]any{"text": strings.Repeat("long ", 20_000)})
		w.Until(id, events.KindParked)
		node.Drain(w.T)
		readers := make(map[string]net.Conn)
		for _, path := range []string{"", "/transcript", "/entries", "/events", "/export"} {
			conn, err := g.pipe.dial(w.Ctx, "", "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(conn, "GET /api/sessions/%s%s HTTP/1.1\r\nHost: 127.0.0.1:8410\r\nAuthorization: Bearer %s\r\n\r\n", id, path, token); err != nil {
				t.Fatal(err)
			}
			readers[path] = conn
		}
		<-time.After(time.Hour)
		for path, conn := range readers {
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			if n, err := io.Copy(io.Discard, conn); err != nil || n > 64<<10 {
				t.Errorf("%s: %d bytes after an hour, %v", path, n, err)
			}
		}
	})
}

// TestMetadataHasFewKeys sends a small request that would be expensive, and metadata that sets the owner or the folder of an
// editor.
func TestMetadataHasFewKeys(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway()
		for _, key := range []string{"owner", "folder"} {
			g.do(http.MethodPost, "/api/sessions", fields{"text": "hi", "metadata": fields{key: "/home/ann"}}).problem(t, http.StatusUnprocessableEntity, "bad_metadata")
			if a := g.do(http.MethodPost, "/v1/conversations", fields{"metadata": fields{key: "/home/ann"}}); a.status != http.StatusUnprocessableEntity {
				t.Errorf("%s: %d %s", key, a.status, a.body)
			}
		}
		defer g.stop()
		metadata := make(map[string]any)
		for i := range 40_000 {
			metadata[strconv.Itoa(i)] = i
		}
		g.do(http.MethodPost, "/api/sessions", map[string]any{"text": "hi", "metadata": metadata}).problem(t, http.StatusUnprocessableEntity, "bad_metadata")
	})
}

// TestAChatIsNotContinuedInTheSessionOfAnotherPerson has a user open a session under the ID that the chat of an operator
// gets, who may drive every session.
func TestAChatIsNotContinuedInTheSessionOfAnotherPerson(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway(withPeople(t))
		defer g.stop()
		sum := sha256.Sum256([]byte("open\x00ops\x00chat\x00c-1"))
		id := g.open(map[string]any{"id": "s-" + hex.EncodeToString(sum[:13]), "text": "hi"}, as("ada"))
		w.Until(id, events.KindTurnFinished)
		chat := map[string]any{"messages": []map[string]any{{"role": "user", "content": "hi"}, {"role": "assistant", "content": "x"}, {"role": "user", "content": "secret"}}}
		got := g.do(http.MethodPost, "/v1/chat/completions", chat, as("ops"), with("X-Turnlog-Chat-Id", "c-1"))
		if got.status != http.StatusForbidden {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// A command's ID is not a secret: another person who sends it gets no access to the session that it opened.
func TestTheCommandOfAnotherPersonOpensNothing(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway(withPeople(t))
		defer g.stop()
		key := with("Idempotency-Key", "0123456789-hers-1")
		g.open(map[string]any{"id": "hers", "text": "Hi"}, as("ada"), key)
		g.do(http.MethodPost, "/api/sessions", map[string]any{"id": "hers", "text": "Hi"}, as("bob"), key).problem(t, http.StatusNotFound, "no_session")
	})
}

// A load balancer has no token and uses the address of a machine.
func TestProbesNeedNoToken(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway(withPeople(t))
		defer g.stop()
		ask := func(method, path string) (int, string) {
			t.Helper()
			resp, err := g.send(method, path, nil, with("Authorization", ""), func(r *http.Request) { r.Host = "10.1.2.3:8410" })
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(body)
		}
		for path, want := range map[string]string{"/healthz": "200 ok\n", "/readyz": "200 ok\n"} {
			if code, body := ask(http.MethodGet, path); fmt.Sprint(code, " ", body) != want {
				t.Errorf("GET %s = %d %s", path, code, body)
			}
		}
		if code, _ := ask(http.MethodPost, "/healthz"); code == http.StatusOK {
			t.Error("POST /healthz was answered")
		}
		if code, _ := ask(http.MethodGet, "/readyz/x"); code == http.StatusOK {
			t.Error("GET /readyz/x was answered")
		}
		g.nats.Close()
		if code, body := ask(http.MethodGet, "/readyz"); code != http.StatusServiceUnavailable || body != "no connection to NATS\n" {
			t.Errorf("GET /readyz without NATS = %d %s", code, body)
		}
		if code, _ := ask(http.MethodGet, "/healthz"); code != http.StatusOK {
			t.Errorf("GET /healthz without NATS = %d", code)
		}
	})
}

// TestAListSaysWhoMayDecide has a session lose the worker of a call. A viewer may not decide about it.
func TestAListSaysWhoMayDecide(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		begun, killed := make(chan struct{}), make(chan struct{})
		lose, err := tool.Func("lose", "Loses its worker.", func(context.Context, struct{}) (string, error) {
			close(begun)
			<-killed
			return "too late", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		node := w.stamps(lose)
		g := w.gateway(withPeople(t))
		defer g.stop()
		w.Start("loses", "replies:\n  - calls: [{name: lose, input: {}}]\n  - text: Lost\n", func(o *client.Options) {
			o.Input, o.Metadata = []content.Item{content.UserText("Go")}, content.Metadata{}.With("owner", "ada")
		})
		<-begun
		node.Kill()
		close(killed)
		defer w.stamps().Drain(w.T)
		w.Until("loses", events.KindTurnFinished)
		for who, want := range map[string]bool{"ada": false, "all": false, "ops": true} {
			var dead struct {
				Calls []struct {
					State string
					May   *bool `json:"may_decide"`
				}
			}
			g.ok(http.MethodGet, "/api/dead", nil, as(who)).in(t, &dead)
			if len(dead.Calls) != 1 || dead.Calls[0].State != "dead" || dead.Calls[0].May == nil || *dead.Calls[0].May != want {
				t.Errorf("%s: %+v", who, dead.Calls)
			}
		}
		for _, who := range []string{"ada", "all"} {
			g.do(http.MethodPost, "/api/dead/loses/call_1_1", fields{"action": "drop"}, as(who)).problem(t, http.StatusForbidden, "forbidden")
		}
		g.ok(http.MethodPost, "/api/dead/loses/call_1_1", fields{"action": "drop"}, as("ops"))
	})
}

// TestAKeyIsOfOneCommandOfOnePerson uses the key of a command for others, in the same session and in another one.
func TestAKeyIsOfOneCommandOfOnePerson(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.stamps().Drain(w.T)
		g := w.gateway(withPeople(t), func(c *gateway.Config) {
			c.Defaults = events.Config{Model: "m", ModelData: []byte(asking), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}
		})
		defer g.stop()
		key := func(name string) request { return with("Idempotency-Key", "0123456789-"+name) }
		w.Until(g.open(map[string]any{"id": "hers", "text": "Stamp"}, as("ada"), key("opens")), events.KindApprovalRequired)
		const one, two = "/api/approvals/hers/t1-r1-c1-g1", "/api/approvals/hers/t1-r1-c2-g1"
		g.ok(http.MethodPost, one, fields{"decision": "approve", "input": fields{"n": 5}}, as("ops"), key("approves"))
		answers := func(approve bool) fields {
			return fields{"previous_response_id": "resp_hers.1", "input": []fields{{"type": "mcp_approval_response", "approval_request_id": "mcpr_t1-r1-c2-g1", "approve": approve}}}
		}
		const input, cancel, closes = "/api/sessions/hers/input", "/api/sessions/hers/cancel", "/api/sessions/hers/close"
		type use struct {
			what, path string
			body       fields
			who, key   string
		}
		refused := func(uses ...use) {
			t.Helper()
			for _, u := range uses {
				if a := g.do(http.MethodPost, u.path, u.body, as(u.who), key(u.key)); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "key_used") {
					t.Errorf("%s: %d %s", u.what, a.status, a.body)
				}
			}
		}
		refused(
			use{"another decision", one, fields{"decision": "deny"}, "ops", "approves"},
			use{"other arguments", one, fields{"decision": "approve", "input": fields{"n": 6}}, "ops", "approves"},
			use{"another question", two, fields{"decision": "approve", "input": fields{"n": 5}}, "ops", "approves"},
			use{"a response's decision", "/v1/responses", answers(true), "ops", "approves"},
			use{"input", input, fields{"text": "x"}, "ops", "approves"},
			use{"input that waits", input, fields{"text": "x", "on_busy": "reject"}, "ops", "approves"},
			use{"a cancel", cancel, fields{}, "ops", "approves"},
			use{"a close", closes, fields{}, "ops", "approves"},
			use{"the session of another person", "/api/sessions", fields{"id": "hers", "text": "Stamp"}, "ops", "opens"},
			use{"other first input", "/api/sessions", fields{"id": "hers", "text": "x"}, "ada", "opens"},
			use{"a fork", "/api/sessions/hers/fork", fields{"id": "hers", "text": "Stamp"}, "ada", "opens"},
			use{"an opening with the key of a decision", "/api/sessions", fields{"id": "hers", "text": "Stamp"}, "ada", "approves"},
			use{"input with the key that opened it", input, fields{"text": "x"}, "ada", "opens"},
		)
		for range 2 { // a repetition is not another command
			g.ok(http.MethodPost, one, fields{"decision": "approve", "input": fields{"n": 5}}, as("ops"), key("approves"))
			g.ok(http.MethodPost, "/api/sessions", fields{"id": "hers", "text": "Stamp"}, as("ada"), key("opens"))
		}
		if a := g.ok(http.MethodGet, two, nil, as("ops")); !strings.Contains(string(a.body), `"pending"`) {
			t.Errorf("%s", a.body)
		}
		g.ok(http.MethodPost, two, fields{"decision": "deny"}, as("ops"), key("denies"))
		w.Until("hers", events.KindTurnFinished)
		g.ok(http.MethodPost, "/v1/responses", fields{"conversation": "conv_hers", "input": "Go on"}, as("ada"), key("goes-on"))
		refused(
			use{"the input of another person", "/v1/responses", fields{"conversation": "conv_hers", "input": "Go on"}, "ops", "goes-on"},
			use{"other input", "/v1/responses", fields{"conversation": "conv_hers", "input": "Stop"}, "ada", "goes-on"},
			use{"other input of the API", input, fields{"text": "Stop"}, "ada", "goes-on"},
			use{"a turn with the key of a decision", "/v1/responses", fields{"conversation": "conv_hers", "input": "Go on"}, "ops", "denies"},
		)
		thread := fields{"threadId": "hers", "runId": "r", "messages": []fields{{"id": "m", "role": "user", "content": "Go on"}}}
		g.do(http.MethodPost, "/api/ag-ui", thread, as("ops"), key("goes-on")).problem(t, http.StatusConflict, "history_differs")
		g.ok(http.MethodPost, "/v1/responses", fields{"conversation": "conv_hers", "input": "Go on"}, as("ada"), key("goes-on"))
		g.ok(http.MethodPost, "/api/sessions", fields{"id": "his", "text": "Stamp"}, as("bob"), key("goes-on")) // another session has other commands
		g.ok(http.MethodPost, closes, fields{}, as("ada"), key("closes"))
		g.ok(http.MethodPost, closes, fields{}, as("ada"), key("closes"))
		refused(use{"the close of another person", closes, fields{}, "ops", "closes"})
	})
}
