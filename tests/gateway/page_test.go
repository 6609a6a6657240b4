package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
)

// A browser without a token is asked for one. With the printed address it gets the page, and the token becomes a cookie
// that scripts cannot read.
func TestABrowserEntersWithThePrintedAddress(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway()
		defer g.stop()
		fetch := func(method, path string, header http.Header) answer {
			return g.do(method, path, nil, func(r *http.Request) { r.Header = header.Clone() })
		}
		none := http.Header{}
		a := fetch(http.MethodGet, "/", none)
		if a.status != http.StatusUnauthorized || !strings.Contains(string(a.body), `name="token"`) || !strings.Contains(a.header.Get("Content-Security-Policy"), "form-action 'self'") {
			t.Errorf("without a token: %d %v\n%s", a.status, a.header, a.body)
		}
		if a := fetch(http.MethodGet, "/?token=wrong", none); a.status != http.StatusUnauthorized || a.header.Get("Set-Cookie") != "" {
			t.Errorf("with a wrong token: %d %v", a.status, a.header)
		}
		a = fetch(http.MethodGet, "/?token="+token, none)
		cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
		if err != nil || a.status != http.StatusSeeOther || a.header.Get("Location") != "/" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
			t.Fatalf("with the token: %d %v, %v", a.status, a.header, err)
		}
		with := http.Header{"Cookie": {cookie.Name + "=" + cookie.Value}}
		if a := fetch(http.MethodGet, "/", with); a.status != http.StatusOK || !strings.Contains(string(a.body), "/page/app.js") || a.header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("the page: %d %v\n%s", a.status, a.header, a.body)
		}
		if a := fetch(http.MethodGet, "/api/me", with); a.status != http.StatusOK {
			t.Errorf("a request of the page: %d", a.status)
		}
		// A page of another site makes old browsers send the cookie.
		other := http.Header{"Cookie": with["Cookie"], "Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}
		if a := fetch(http.MethodPost, "/api/sessions", other); a.status != http.StatusForbidden {
			t.Errorf("a request of another site: %d", a.status)
		}
		if a := fetch(http.MethodGet, "/page/style.css", nil); a.status != http.StatusOK {
			t.Errorf("a file of the page: %d", a.status)
		}
		if a := fetch(http.MethodGet, "/page/none", with); a.status != http.StatusNotFound {
			t.Errorf("no file of the page: %d", a.status)
		}
	})
}

// TestGatewaysOnOneMachineDoNotLogEachOtherOut has a browser, which ignores the port of a cookie's host, use several gateways.
func TestGatewaysOnOneMachineDoNotLogEachOtherOut(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		const second = "the-token-of-another-one"
		one, same, other := w.gateway(), w.gateway(), w.gateway(func(c *gateway.Config) { c.Access.Token = second })
		for _, g := range []*service{one, same, other} {
			defer g.stop()
		}
		var b browser
		here, there := with("Host", "127.0.0.1:8410"), with("Host", "127.0.0.1:8411")
		enter := func(g *service, token string, at request) {
			t.Helper()
			if a := b.get(g, http.MethodGet, "/?token="+token, at); a.status != http.StatusSeeOther {
				t.Fatalf("%d %v", a.status, a.header)
			}
		}
		is := func(want int, g *service, at request) {
			t.Helper()
			if a := b.get(g, http.MethodGet, "/api/me", at); a.status != want {
				t.Errorf("%d %s, want %d", a.status, a.body, want)
			}
		}
		enter(one, token, here)
		enter(other, second, there)
		is(http.StatusOK, one, here)
		is(http.StatusOK, same, here) // a balancer sent the request there
		is(http.StatusOK, other, there)
		b.get(other, http.MethodPost, "/logout", there)
		is(http.StatusUnauthorized, other, there)
		is(http.StatusOK, one, here)
	})
}

// TestOpenAPIDescribesEveryOperation checks that each operation has an ID, its outcome and its errors.
func TestOpenAPIDescribesEveryOperation(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway()
		defer g.stop()
		var doc struct {
			OpenAPI string
			Paths   map[string]map[string]struct {
				OperationID string `json:"operationId"`
				Summary     string
				Responses   map[string]struct{ Content map[string]any }
				Parameters  []struct{ Name, In string }
			}
		}
		g.ok(http.MethodGet, "/openapi.json", nil).in(t, &doc)
		if !strings.HasPrefix(doc.OpenAPI, "3.1") || len(doc.Paths) < 20 {
			t.Errorf("OpenAPI %s with %d paths", doc.OpenAPI, len(doc.Paths))
		}
		var ids []string
		for path, operations := range doc.Paths {
			for method, o := range operations {
				if o.OperationID == "" || o.Summary == "" || slices.Contains(ids, o.OperationID) {
					t.Errorf("%s %s has the ID %q and the summary %q", method, path, o.OperationID, o.Summary)
				}
				ids = append(ids, o.OperationID)
				ok := false
				for status, r := range o.Responses {
					ok = ok || strings.HasPrefix(status, "2")
					if _, problem := r.Content["application/problem+json"]; !strings.HasPrefix(status, "2") && !problem {
						t.Errorf("%s %s: %s is no problem document", method, path, status)
					}
				}
				if !ok {
					t.Errorf("%s %s has no outcome", method, path)
				}
				for _, name := range strings.Split(path, "{")[1:] {
					name, _, _ = strings.Cut(name, "}")
					if !slices.ContainsFunc(o.Parameters, func(p struct{ Name, In string }) bool { return p.Name == name && p.In == "path" }) {
						t.Errorf("%s %s does not describe {%s}", method, path, name)
					}
				}
			}
		}
	})
}

// TestACallIsExplained has the gateway explain a call from the journal.
func TestACallIsExplained(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway()
		defer g.stop()
		w.drive()
		id := g.open(map[string]any{"text": "go"})
		w.Until(id, events.KindTurnFinished)
		g.do(http.MethodGet, "/api/sessions/"+string(id)+"/calls/none", nil).problem(t, http.StatusNotFound, "no_call")

		s := w.Start("calls", "replies:\n  - calls: [{name: nothing, input: {a: 1}}]\n  - text: done\n")
		if _, err := s.RunText(w.Ctx, "go"); err != nil {
			t.Fatal(err)
		}
		var out struct {
			Text string
			Call struct{ Tool, Status string }
		}
		g.ok(http.MethodGet, "/api/sessions/calls/calls/t1-r1-c1", nil).in(t, &out)
		if out.Call.Tool != "nothing" || out.Call.Status != "error" || !strings.Contains(out.Text, "nothing") {
			t.Errorf("the call is explained as %+v", out)
		}
	})
}
