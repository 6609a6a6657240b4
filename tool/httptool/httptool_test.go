package httptool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/parallel"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/tooltest"
)

func TestMain(m *testing.M) {
	parallel.Tests(8) // some wait for retries and time limits
	goleak.VerifyTestMain(m)
}

// long is a timeout for busy machines.
const long = 30 * time.Second

// open follows services until the test ends.
func open(t *testing.T, cfg Config) *Manager {
	t.Helper()
	cfg.every = 5 * time.Millisecond
	m, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// serve starts a service, whose GET answers with the description.
func serve(t *testing.T, description string, call http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/" {
			_, _ = io.WriteString(w, description)
			return
		}
		call(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// offered returns the tools of the only service when it was asked.
func offered(t *testing.T, m *Manager) []tool.Tool {
	t.Helper()
	for _, err := range m.Missing(t.Context()) {
		t.Fatal(err)
	}
	tools, err := m.Sources()[0].Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// only follows a service with one tool.
func only(t *testing.T, s *httptest.Server) tool.Tool {
	t.Helper()
	tools := offered(t, open(t, Config{Services: []Service{{Name: "x", URL: s.URL}}}))
	if len(tools) != 1 {
		t.Fatalf("%d tools, want 1", len(tools))
	}
	return tools[0]
}

func invoke(t *testing.T, x tool.Tool, input string) content.ToolResult {
	t.Helper()
	return tool.Invoke(t.Context(), x, tool.Call{ID: "c1", Session: "s1", Input: json.RawMessage(input), Attempt: 2, IdempotencyKey: "key-1"}).Result
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, late := time.NewTicker(time.Millisecond), time.After(long)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not in time", what)
		}
	}
}

const count = `{"description": "Counts.", "effects": "%s", "timeout": "40s",
	"input": {"type": "object", "properties": {"text": {"type": "string", "description": "Some text."}}, "required": ["text"], "additionalProperties": false}}`

func TestAManifestMakesATool(t *testing.T) {
	t.Parallel()
	var got atomic.Pointer[http.Header] // of the last call
	x := only(t, serve(t, fmt.Sprintf(count, "read_only"), func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "last") { // a canceled call may arrive later
			got.Store(&r.Header)
		}
		switch {
		case strings.Contains(string(body), "wait"):
			<-r.Context().Done()
		case strings.Contains(string(body), "fail"):
			http.Error(w, "there is no such thing", http.StatusTeapot)
		default:
			w.Header().Set("Content-Type", "text/plain")
			_, _ = fmt.Fprintf(w, "%s %s", r.Method, body)
		}
	}))
	if s := x.Spec(); s.Name != "x" || s.Effects != content.ReadOnly || s.Timeout != 40*time.Second || s.Description != "Counts." {
		t.Errorf("spec = %+v", s)
	}
	tooltest.Run(
		t, x,
		tooltest.Case{Name: "text", Input: `{"text":"a"}`, Text: `POST {"text":"a"}`},
		tooltest.Case{Name: "failure", Input: `{"text":"fail"}`, Status: content.StatusError, Code: "http_418"},
		tooltest.Case{Name: "cancel", Input: `{"text":"wait"}`, Blocks: true},
	)
	invoke(t, x, `{"text":"last"}`)
	for name, want := range map[string]string{
		"Idempotency-Key": "key-1", "Turnlog-Session": "s1", "Turnlog-Call": "c1", "Turnlog-Attempt": "2", "Content-Type": "application/json",
	} {
		if is := got.Load().Get(name); is != want {
			t.Errorf("header %s = %q, want %q", name, is, want)
		}
	}
}

func TestAStreamReportsProgress(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		`{"progress":"half","share":0.5}|{"result":"done"}`: "ok: done [half 0.5]",
		`{"result":{"n":3}}`:       `ok: {"n":3} []`,
		`||{"error":"no luck"}`:    "error: Tool failed: no luck []",
		`{"progress":"half"}`:      "error: Tool failed: x: the answer is truncated: EOF; whether the call had an effect is not known [half 0]",
		`{"progress":"half"}|junk`: "error: Tool failed: x: a line of its answer is not a JSON object: junk [half 0]",
	} {
		x := only(t, serve(t, fmt.Sprintf(count, "none"), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			_, _ = io.WriteString(w, strings.ReplaceAll(lines, "|", "\n"))
		}))
		reports := []string{}
		r := tool.Invoke(t.Context(), x, tool.Call{Input: json.RawMessage(`{"text":"a"}`), Progress: func(text string, share float64) {
			reports = append(reports, fmt.Sprint(text, " ", share))
		}}).Result
		if got := fmt.Sprintf("%s: %s %v", r.Status, r.Text(), reports); got != want {
			t.Errorf("%s\n got %s\nwant %s", lines, got, want)
		}
	}
}

// cutting answers n requests by closing their connections, or with a status, then with "ok".
func cutting(n int32, status int, seen *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		switch {
		case seen.Add(1) > n:
			_, _ = io.WriteString(w, "ok")
		case status != 0:
			http.Error(w, "busy", status)
		default:
			panic(http.ErrAbortHandler)
		}
	}
}

func TestRetriesFollowTheEffects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		effects string
		fail    int32
		status  int
		want    string
		seen    int32
	}{
		{"read_only", 2, 0, "ok", 3},
		{"idempotent", 1, http.StatusBadGateway, "ok", 2},
		{"none", 9, 0, tool.CodeUnknown, 1},
		{"none", 9, http.StatusGatewayTimeout, tool.CodeUnknown, 1},
		{"none", 1, http.StatusServiceUnavailable, "ok", 2},
		{"none", 9, http.StatusInternalServerError, "http_500", 1},
		{"read_only", 9, http.StatusTooManyRequests, tool.CodeUnavailable, 4},
	} {
		t.Run(fmt.Sprint(c.effects, c.status), func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int32
			r := invoke(t, only(t, serve(t, fmt.Sprintf(count, c.effects), cutting(c.fail, c.status, &seen))), `{"text":"a"}`)
			if got := r.Code; r.Status == content.StatusOK && r.Text() != c.want || r.Status != content.StatusOK && got != c.want || seen.Load() != c.seen {
				t.Errorf("%s %s: %s, after %d requests; want %s after %d", r.Status, r.Code, r.Text(), seen.Load(), c.want, c.seen)
			}
		})
	}
}

func TestCancelClosesTheConnection(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}), make(chan struct{})
	x := only(t, serve(t, fmt.Sprintf(count, "none"), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, `{"progress":"on it"}`+"\n")
		_ = http.NewResponseController(w).Flush()
		close(began)
		<-r.Context().Done()
		close(ended)
	}))
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan content.ToolResult, 1)
	go func() { result <- tool.Invoke(ctx, x, tool.Call{Input: json.RawMessage(`{"text":"a"}`)}).Result }()
	<-began
	cancel(tool.ErrCancelled)
	<-ended
	if r := <-result; r.Status != content.StatusCancelled {
		t.Errorf("result = %+v", r)
	}
}

func TestAnOfferGoesWithItsService(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	up.Store(true)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !up.Load():
			panic(http.ErrAbortHandler)
		case r.Header.Get("If-None-Match") == `"1"`:
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("ETag", `"1"`)
			_, _ = fmt.Fprintf(w, count, "read_only")
		}
	}))
	t.Cleanup(s.Close)
	core, log := observer.New(zap.InfoLevel)
	m := open(t, Config{Services: []Service{{Name: "x", URL: s.URL + "/?key=secret"}}, Logger: zap.New(core)})
	offered(t, m)
	has := func(n int) func() bool {
		return func() bool {
			tools, err := m.Sources()[0].Tools(t.Context())
			return err == nil && len(tools) == n
		}
	}
	up.Store(false)
	eventually(t, "the tool is gone", has(0))
	up.Store(true)
	eventually(t, "the tool is back", has(1))
	var said []string
	for _, e := range log.All() {
		said = append(said, e.Message)
		if strings.Contains(fmt.Sprint(e.ContextMap()), "secret") {
			t.Errorf("logged: %s %v", e.Message, e.ContextMap())
		}
	}
	if diff := cmp.Diff([]string{"HTTP tool available", "HTTP tool unavailable", "HTTP tool available"}, said); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestAServiceMayDoOneThingAtATime(t *testing.T) {
	t.Parallel()
	var one sync.Mutex
	asked, began, finish := make(chan struct{}, 100), make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			asked <- struct{}{}
		}
		one.Lock()
		defer one.Unlock()
		if r.Method == http.MethodGet {
			_, _ = fmt.Fprintf(w, count, "none")
			return
		}
		close(began)
		<-finish
	}))
	t.Cleanup(s.Close)
	m := open(t, Config{Services: []Service{{Name: "x", URL: s.URL}}, patience: 500 * time.Millisecond})
	x := offered(t, m)[0]
	ended := make(chan struct{})
	go func() {
		invoke(t, x, `{"text":"a"}`)
		close(ended)
	}()
	<-began
	for len(asked) > 0 {
		<-asked
	}
	for range 3 { // the first of them is over
		<-asked
	}
	if tools, err := m.Sources()[0].Tools(t.Context()); err != nil || len(tools) != 1 {
		t.Errorf("during a call it offers %v, %v", tools, err)
	}
	close(finish)
	<-ended
}

func TestServicesAreRefused(t *testing.T) {
	t.Parallel()
	redirect := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/there", http.StatusFound) }
	for want, h := range map[string]http.HandlerFunc{
		"it answers 404 Not Found": http.NotFound,
		"redirects":                redirect,
		"not a JSON object":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"unknown field": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"description":"d","effect":"none"}`)
		},
		"description: is missing": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) },
		"nests too deeply":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("[", 1000)) },
		"more than 4 MiB":         func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat(" ", 5<<20)) },
		"version 2.0":             func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"openapi":"2.0"}`) },
		"is not allowed": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"openapi":"3.1.0","servers":[{"url":"https://example.com"}]}`)
		},
	} {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		errs := open(t, Config{Services: []Service{{Name: "x", URL: s.URL}}}).Missing(t.Context())
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("errors = %v, want %q", errs, want)
		}
	}
}

func TestPrivateAddressesAreDialedOnlyIfNamed(t *testing.T) {
	t.Parallel()
	s := serve(t, fmt.Sprintf(count, "none"), http.NotFound)
	port := s.URL[strings.LastIndex(s.URL, ":"):]
	client := &http.Client{Transport: transport(nil)} // as for a name that leads to it
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client.Do(req); err == nil || !strings.Contains(err.Error(), "is not public") {
		_ = resp.Body.Close()
		t.Errorf("dialed 127.0.0.1: %v", err)
	}
	for _, at := range []string{s.URL, "http://localhost" + port} {
		if errs := open(t, Config{Services: []Service{{Name: "x", URL: at}}}).Missing(t.Context()); len(errs) > 0 {
			t.Errorf("%s: %v", at, errs)
		}
	}
}

func TestHeadersAreReferences(t *testing.T) {
	t.Parallel()
	var seen atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Method + " " + r.Header.Get("Authorization"))
		if r.Header.Get("Authorization") != "Bearer right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprintf(w, count, "none")
	}))
	t.Cleanup(s.Close)
	var token atomic.Value
	token.Store("Bearer right")
	m := open(t, Config{
		Services: []Service{{Name: "x", URL: s.URL, Headers: map[string]string{"Authorization": "env:TOKEN"}}},
		Getenv:   func(string) string { return token.Load().(string) },
	})
	x := offered(t, m)[0]
	token.Store("Bearer wrong")
	r := tool.Invoke(t.Context(), x, tool.Call{Input: json.RawMessage(`{"text":"a"}`)})
	if r.Result.Code != tool.CodeAuth || !strings.Contains(string(r.Auth), `"id":"http:x"`) || strings.Contains(r.Result.Text(), "wrong") {
		t.Errorf("result = %+v", r)
	}
	token.Store("")
	if r := invoke(t, x, `{"text":"a"}`); r.Code != tool.CodeUnavailable || !strings.Contains(r.Text(), "TOKEN is not set") {
		t.Errorf("result = %+v", r)
	}
}

func TestAnswersHaveAnEnd(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"text/plain", "application/x-ndjson"} {
		x := only(t, serve(t, fmt.Sprintf(count, "none"), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			for range 17 << 10 {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		}))
		if r := invoke(t, x, `{"text":"a"}`); r.Code != tool.CodeFailed || !strings.Contains(r.Text(), "more than 16 MiB") {
			t.Errorf("%s: %s %s", kind, r.Code, content.Clip(r.Text(), 200))
		}
	}
}

func TestConfigsAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"words": "write the tool's name", "a b=http://x": "use a name", "a=ftp://x": "must be like", "a=http://u:p@x": "without a user", "a=/x": "must be like",
	} {
		if s, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %+v, %v, want %q", text, s, err, want)
		}
	}
	ok := Service{Name: "git", URL: "http://x/y?z=hush"}
	if ok.Address() != "http://x/y" {
		t.Errorf("address = %s", ok.Address())
	}
	for want, cfg := range map[string]Config{
		"two services have the name git": {Services: []Service{ok, ok}},
		"could have the same names":      {Services: []Service{ok, {Name: "git_hub", URL: "http://x"}}},
		"header X: use a reference":      {Services: []Service{{Name: "a", URL: "http://x", Headers: map[string]string{"X": "hush"}}}},
		"header accept is reserved":      {Services: []Service{{Name: "a", URL: "http://x", Headers: map[string]string{"accept": "env:A"}}}},
		`header "a b": is not a header`:  {Services: []Service{{Name: "a", URL: "http://x", Headers: map[string]string{"a b": "env:A"}}}},
		"timeout -1ns: use 0":            {Timeout: -1},
	} {
		if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}
