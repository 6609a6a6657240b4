package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// valve makes a server reachable or not.
type valve struct {
	mu     sync.Mutex
	closed bool
}

func (g *valve) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
}

func (g *valve) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		closed := g.closed
		g.mu.Unlock()
		if closed {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// hanging returns the URL of a server that never answers.
func hanging(t *testing.T) string {
	t.Helper()
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodDelete || strings.Contains(string(body), `"notifications/`) {
			return // the SDK waits seconds for the end of a session and for cancels
		}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(func() {
		close(over)
		s.Close()
	})
	return s.URL
}

func TestABadServerDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	over := make(chan struct{})
	tardy := newFake(true) // connects but never lists its tools
	tardy.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				<-over
			}
			return next(ctx, method, r)
		}
	})
	url := tardy.serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodDelete { // which would wait for the list
				next.ServeHTTP(w, r)
			}
		})
	}).URL
	m := open(t, Config{Servers: []Server{
		{Name: "hung", URL: hanging(t), ConnectTimeout: timeout},
		{Name: "tardy", URL: url, ConnectTimeout: timeout},
		{Name: "good", URL: newFake(false).serve(t).URL},
		{Name: "gone", URL: "http://127.0.0.1:1/mcp?key=hidden"},
		{Name: "missing", Command: []string{"/no/such/program"}},
		withTimeout(programServer(t, "mute", "hang"), timeout),
		programServer(t, "broken", "broken"),
		programServer(t, "noise", "noise"), programServer(t, "garbled", "garbled"),
	}})
	t.Cleanup(func() { close(over) })
	got := make(map[string]string)
	for _, s := range m.Settle(within(t)) {
		got[s.Server] = string(s.State)
		if s.Err != nil {
			got[s.Server] += ": " + s.Err.Error()
		}
	}
	for name, want := range map[string]string{
		"good": "ready", "hung": "unavailable: connect: no answer within 300ms",
		"tardy": "unavailable: connect: no answer within 300ms", "mute": "unavailable: connect: no answer within 300ms",
		"gone": "unavailable: dial tcp 127.0.0.1:1: connect: connection refused", "missing": "unavailable: start: exec: \"/no/such/program\": stat /no/such/program: no such file",
		"broken": "unavailable: the program ended (exit status 3): no key:", "noise": "unavailable: the program ended (exit status 0): this is no JSON",
		"garbled": "unavailable: the program wrote an invalid message: ",
	} {
		if !strings.HasPrefix(got[name], want) || strings.Contains(got[name], "hidden") {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	wantText(t, invoke(t, named(t, m, "mcp_good_echo"), `{"text":"I am well"}`), content.StatusOK, "", "I am well")
	for _, name := range names(t, m) {
		if !strings.HasPrefix(name, "mcp_good_") {
			t.Errorf("%s is on offer", name)
		}
	}
}

func withTimeout(s Server, d time.Duration) Server {
	s.ConnectTimeout = d
	return s
}

func TestSettleWaitsForServersAndKeepsConnections(t *testing.T) {
	t.Parallel()
	m := open(t, Config{Servers: []Server{{Name: "a", URL: newFake(false).serve(t).URL}, {Name: "hung", URL: hanging(t)}}})
	eventually(t, "a connection", func() bool { return m.Status()[0].State == Ready })
	session := m.links[0].current().conn
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	s := m.Settle(ctx)
	if len(s) != 2 || s[0].State != Ready || s[0].Err != nil || s[1].State != Connecting || !errors.Is(s[1].Err, context.DeadlineExceeded) {
		t.Errorf("statuses = %+v", s)
	}
	if m.links[0].current().conn != session || session == nil {
		t.Error("a connected server was connected again")
	}
}

func TestToolsLeaveAndReturnWithTheServer(t *testing.T) {
	t.Parallel()
	for name, legacy := range map[string]bool{"now": false, "legacy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, g := newFake(legacy), &valve{}
			s := f.serve(t, g.around)
			m := open(t, Config{checkEvery: 10 * time.Millisecond, Servers: []Server{
				{Name: "x", URL: s.URL, ConnectTimeout: 20 * time.Second}, {Name: "y", URL: newFake(legacy).serve(t).URL},
			}})
			ready(t, m)
			echo := named(t, m, "mcp_x_echo")
			g.set(true)
			s.CloseClientConnections()
			eventually(t, "the tools leave", func() bool { return !slices.Contains(names(t, m), "mcp_x_echo") })
			if !slices.Contains(names(t, m), "mcp_y_echo") {
				t.Error("the other server's tools left too")
			}
			if st := m.Status()[0]; st.State == Ready || len(st.Tools) > 0 {
				t.Errorf("status = %+v", st)
			}
			r := invoke(t, echo, `{"text":"a"}`)
			wantText(t, r, content.StatusError, CodeUnavailable, "server x is not available")
			f.RemoveTools("set")
			g.set(false)
			eventually(t, "the tools return", func() bool { return slices.Contains(names(t, m), "mcp_x_echo") })
			if slices.Contains(names(t, m), "mcp_x_set") {
				t.Error("a removed tool returned")
			}
			wantText(t, invoke(t, echo, `{"text":"again"}`), content.StatusOK, "", "again")
		})
	}
}

func TestAForgottenSessionIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFake(true)
	s := f.serve(t)
	m := open(t, Config{Servers: []Server{{Name: "x", URL: s.URL}}})
	ready(t, m)
	for ss := range f.Sessions() {
		_ = ss.Close() // as if the server had restarted
	}
	wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"a"}`), content.StatusOK, "", "a")
}

func TestAnnouncedChangesReachTheCatalog(t *testing.T) {
	t.Parallel()
	for name, legacy := range map[string]bool{"now": false, "legacy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(legacy)
			m := open(t, Config{Servers: []Server{{Name: "x", URL: f.serve(t).URL}}})
			ready(t, m)
			sdk.AddTool(f.Server, &sdk.Tool{Name: "new"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
				return texts("new"), nil, nil
			})
			f.RemoveTools("fail")
			eventually(t, "the change", func() bool {
				all := names(t, m)
				return slices.Contains(all, "mcp_x_new") && !slices.Contains(all, "mcp_x_fail")
			})
			wantText(t, invoke(t, named(t, m, "mcp_x_new"), `{}`), content.StatusOK, "", "new")
		})
	}
}

func TestChecksFindChangesThatWereNotAnnounced(t *testing.T) {
	t.Parallel()
	f := newFake(false)
	quiet := sdk.NewServer(&sdk.Implementation{Name: "quiet", Version: "1"}, &sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}})
	f.Server = quiet
	add := func(name string) {
		quiet.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return texts(name), nil })
	}
	add("a")
	m := open(t, Config{checkEvery: 10 * time.Millisecond, Servers: []Server{{Name: "x", URL: f.serve(t).URL}}})
	ready(t, m)
	if diff := cmp.Diff([]string{"mcp_x_a"}, names(t, m)); diff != "" {
		t.Fatal(diff)
	}
	add("b")
	quiet.RemoveTools("a")
	eventually(t, "the change", func() bool { return slices.Equal(names(t, m), []string{"mcp_x_b"}) })
}

func TestAClosedManagerOffersNothing(t *testing.T) {
	t.Parallel()
	m := open(t, Config{Servers: []Server{{Name: "x", URL: newFake(false).serve(t).URL}}})
	ready(t, m)
	echo := named(t, m, "mcp_x_echo")
	m.Close()
	m.Close()
	if len(names(t, m)) > 0 {
		t.Errorf("tools = %v", names(t, m))
	}
	wantText(t, invoke(t, echo, `{"text":"a"}`), content.StatusError, CodeUnavailable, "the manager is closed")
}

func TestLongResponsesEndTheConnection(t *testing.T) {
	t.Parallel()
	f := newFake(false)
	f.AddTool(&sdk.Tool{Name: "huge", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return texts(strings.Repeat("x", 300_000)), nil
	})
	for name, json := range map[string]bool{"events": false, "json": true} {
		h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return f.Server }, &sdk.StreamableHTTPOptions{JSONResponse: json})
		s := httptest.NewServer(h)
		t.Cleanup(func() { end(f.Server, s) })
		m := open(t, Config{maxMessage: 200_000, Servers: []Server{{Name: "x", URL: s.URL}}})
		ready(t, m)
		r := invoke(t, named(t, m, "mcp_x_huge"), `{}`).Result
		if r.Status != content.StatusError || r.Code != CodeUnavailable {
			t.Errorf("%s: result = %s %s %.100q", name, r.Status, r.Code, r.Text())
		}
		eventually(t, "the tools return", func() bool { return slices.Contains(names(t, m), "mcp_x_echo") })
		wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"a"}`), content.StatusOK, "", "a")
	}
}

func TestUnusableToolsAreOmitted(t *testing.T) {
	t.Parallel()
	f := newFake(false)
	f.AddTool(&sdk.Tool{Name: "odd", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/nowhere"}}}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return texts("odd"), nil })
	f.AddTool(&sdk.Tool{Name: "epic", Description: strings.Repeat("Once upon a time. ", 20_000), InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return texts("epic"), nil })
	m := open(t, Config{Servers: []Server{{Name: "x", URL: f.serve(t).URL}}})
	ready(t, m)
	if all := names(t, m); slices.Contains(all, "mcp_x_odd") || slices.Contains(all, "mcp_x_epic") || !slices.Contains(all, "mcp_x_echo") {
		t.Errorf("tools = %v", all)
	}
	c, err := tool.Sample(t.Context(), m.Sources(), tool.ErrorOnCollision)
	if err != nil || c.Offers[0].Source != "mcp:x" {
		t.Errorf("catalog = %+v, %v", c, err)
	}
}
