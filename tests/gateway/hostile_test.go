package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// posts returns the paths that take a body, for a session and its parts.
func posts() []string {
	return []string{
		"/api/sessions", "/api/sessions/hers/input", "/api/sessions/hers/cancel", "/api/sessions/hers/close", "/api/sessions/hers/fork", "/api/approvals/hers/t1-r1-c1-g1",
		"/api/dead/hers/call_1_1", "/api/chat", "/api/ag-ui", "/v1/responses", "/v1/chat/completions", "/v1/conversations", "/mcp",
	}
}

// TestHugeBodiesAreRefused sends bodies over the limit, of which the gateway must read little.
func TestHugeBodiesAreRefused(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway(withPeople(t))
		defer g.stop()
		g.open(map[string]any{"id": "hers", "text": "Hi"}, as("ada"))
		for _, path := range posts() {
			body := `{"text":"` + strings.Repeat("x", 9<<20) + `"}`
			a := g.do(http.MethodPost, path, body, as("ops"))
			if a.status != http.StatusRequestEntityTooLarge || !strings.Contains(string(a.body), "too_large") || len(a.body) > 4<<10 {
				t.Errorf("%s: %d %.200s", path, a.status, a.body)
			}
		}
		if a := g.do(http.MethodGet, "/api/sessions?search="+strings.Repeat("x", 1<<20), nil, as("ada")); a.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a long address: %d", a.status)
		}
		if a := g.do(http.MethodGet, "/api/sessions", nil, as("ada"), with("Baggage", strings.Repeat("x", 1<<20))); a.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a long header: %d", a.status)
		}
		var list rows
		if g.ok(http.MethodGet, "/api/sessions", nil, as("ops")).in(t, &list); list.ids() != "hers" {
			t.Errorf("there is %q", list.ids())
		}
	})
}

// TestNoPathLeadsPastTheGuard sends requests without a token, with paths that cleaning or decoding may change.
func TestNoPathLeadsPastTheGuard(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		g := w.gateway(withPeople(t))
		defer g.stop()
		g.open(map[string]any{"id": "hers", "text": "secret"}, as("ada"))
		as200 := map[string]bool{"/page/app.js": true, "/healthz": true}
		for _, path := range []string{
			"/page/app.js", "/healthz", "/page/../api/sessions", "/page/%2e%2e/api/sessions", "/page/..%2fapi/sessions", "/page//..//api/models", "/page/..%5c..%5capi/models", "/page/./../api/tools",
			"//api/sessions", "/api//sessions", "/API/sessions", "/api/./sessions/hers", "/healthz/../api/sessions", "/readyz/api/sessions", "/v1/../api/me", "/mcp/../api/me",
			"/openapi.json", "/openapi.yaml", "/schemas/ListOut.json", "/docs", "/debug/pprof/", "/metrics", "/page/../../../etc/passwd", "/page/..%2f..%2fpage.go", "/page/%00",
		} {
			for _, host := range []string{"127.0.0.1:8410", "localhost", "[::1]:8410"} {
				a := g.do(http.MethodGet, "/", nil, func(r *http.Request) {
					r.Header.Del("Authorization")
					r.URL, r.Host = &url.URL{Scheme: "http", Host: r.URL.Host, Opaque: path}, host // as it is
				})
				if (a.status == http.StatusOK) != as200[path] || strings.Contains(string(a.body), "secret") || strings.Contains(string(a.body), "hers") {
					t.Errorf("%s: %d %.200s", path, a.status, a.body)
				}
			}
		}
		for host, want := range map[string]int{
			"localhost": 200, "LOCALHOST.": 200, "10.1.2.3": 200, "[::1]": 200, "evil.example": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example:8410": 421, "2130706433": 421,
		} {
			if a := g.do(http.MethodGet, "/api/me", nil, as("ada"), with("Host", host)); a.status != want {
				t.Errorf("for %s: %d, want %d", host, a.status, want)
			}
		}
	})
}

// TestATruncatedBodyIsRefused ends requests in the middle of their bodies.
func TestATruncatedBodyIsRefused(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway()
		defer g.stop()
		for _, path := range append(posts(), "/api/files?name=x") {
			conn, err := g.pipe.dial(w.Ctx, "", "")
			if err != nil {
				t.Fatal(err)
			}
			sent := "POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1:8410\r\nContent-Type: application/json\r\nAuthorization: Bearer " + token + "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\ncut"
			if _, err := fmt.Fprint(conn, sent+strings.Repeat("x", 20)+"\r\n"); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			_, _ = res.Body.Close(), conn.Close()
			if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "truncated") || !strings.Contains(string(body), "again") {
				t.Errorf("%s: %d %s", path, res.StatusCode, body)
			}
		}
	})
}

// TestAWriterThatDoesNotWriteIsCutOff has writers begin requests and never end them.
func TestAWriterThatDoesNotWriteIsCutOff(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		g := w.gateway()
		defer g.stop()
		var starts []string
		for _, path := range append(posts(), "/api/files?name=x") {
			starts = append(starts, "POST "+path+" HTTP/1.1\r\nHost: 127.0.0.1:8410\r\nContent-Type: application/json\r\nAuthorization: Bearer "+token+"\r\nContent-Length: 1000\r\n\r\n{")
		}
		for _, start := range append(starts, "", "GET /api/sessions HTTP/1.1\r\nHost: 127.0.0.1:8410\r\nX-A: ") {
			conn, err := g.pipe.dial(w.Ctx, "", "")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			go func() { _, _ = io.Copy(io.Discard, conn) }() // it reads whatever comes
			if _, err := fmt.Fprint(conn, start); err != nil {
				t.Fatal(err)
			}
			for err == nil { // a byte now and then does not help
				<-time.After(5 * time.Second)
				if _, err = conn.Write([]byte("x")); time.Since(began) > time.Hour {
					break
				}
			}
			if took := time.Since(began); took > 11*time.Minute {
				t.Errorf("%.60q holds its connection for %s", start, took)
			}
			_ = conn.Close()
		}
	})
}
