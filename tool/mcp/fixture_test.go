package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/parallel"
	"github.com/turnlog/turnlog/tool"
)

// asProgram is the variable that turns the test binary into a server.
const asProgram = "TURNLOG_TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(asProgram); mode != "" {
		os.Exit(programMain(mode))
	}
	parallel.Tests(8)
	goleak.VerifyTestMain(m)
}

// fake is a server of the SDK that records what tests check.
type fake struct {
	*sdk.Server
	mu       sync.Mutex
	keys     []any // idempotency keys that came with calls
	stopped  chan struct{}
	started  chan struct{}
	finishes chan struct{}
}

type text struct {
	Text string `json:"text" jsonschema:"any text"`
}

type sum struct {
	Sum int `json:"sum"`
}

// newFake returns a server with tools and resources. legacy makes it refuse the
// newest handshake.
func newFake(legacy bool) *fake {
	f := &fake{
		Server:  sdk.NewServer(&sdk.Implementation{Name: "fake", Version: "1"}, nil),
		stopped: make(chan struct{}, 8), started: make(chan struct{}, 8), finishes: make(chan struct{}),
	}
	f.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if legacy && method == "server/discover" {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "never heard of it"}
			}
			if p, ok := r.GetParams().(*sdk.CallToolParamsRaw); ok {
				f.mu.Lock()
				f.keys = append(f.keys, p.Meta[metaKey])
				f.mu.Unlock()
			}
			return next(ctx, method, r)
		}
	})
	f.addTools()
	return f
}

func texts(s ...string) *sdk.CallToolResult {
	r := &sdk.CallToolResult{}
	for _, s := range s {
		r.Content = append(r.Content, &sdk.TextContent{Text: s})
	}
	return r
}

func (f *fake) addTools() {
	no := false
	sdk.AddTool(f.Server, &sdk.Tool{Name: "echo", Description: "Says it again.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
			return texts(in.Text), nil, nil
		})
	sdk.AddTool(f.Server, &sdk.Tool{Name: "set", Description: "Sets it.", Annotations: &sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: &no}},
		func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
			return texts("set"), nil, nil
		})
	sdk.AddTool(f.Server, &sdk.Tool{Name: "add", Description: "Adds.", Annotations: &sdk.ToolAnnotations{OpenWorldHint: &no}},
		func(_ context.Context, _ *sdk.CallToolRequest, in struct{ A, B int }) (*sdk.CallToolResult, sum, error) {
			return nil, sum{in.A + in.B}, nil
		})
	sdk.AddTool(f.Server, &sdk.Tool{Name: "fail"},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return nil, nil, errors.New("the disk is full")
		})
	f.AddTool(&sdk.Tool{Name: "mixed", Title: "All kinds of content", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{
				&sdk.TextContent{Text: "one"},
				&sdk.ImageContent{MIMEType: "image/png", Data: []byte{1, 2}},
				&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte{3}},
				&sdk.ResourceLink{URI: "note:1", Name: "first", MIMEType: "text/plain", Description: "a note"},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "note:2", Text: "within"}},
				&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "note:3", MIMEType: "application/pdf", Blob: []byte("pdf")}},
			}}, nil
		})
	f.AddTool(&sdk.Tool{Name: "long", Description: "Goes on and on.", InputSchema: json.RawMessage(`{"type":"object"}`)}, f.long)
	f.AddTool(&sdk.Tool{Name: "dotted.name", Description: "Has a dot.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return texts("dotted"), nil })
	f.AddResource(&sdk.Resource{URI: "note:1", Name: "first", MIMEType: "text/plain"},
		func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "note:1", Text: "buy milk"}}}, nil
		})
	f.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "page:{n}", Name: "pages"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "of " + r.Params.URI}}}, nil
		})
	f.AddPrompt(&sdk.Prompt{Name: "greet", Description: "Greets.", Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Say hello to " + r.Params.Arguments["who"]}}}}, nil
		})
}

// long reports progress until the test or a cancel ends it.
func (f *fake) long(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	if token := r.Params.GetProgressToken(); token != nil {
		_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Message: "half", Progress: 5, Total: 10})
	}
	f.started <- struct{}{}
	select {
	case <-ctx.Done():
		f.stopped <- struct{}{}
		return nil, ctx.Err()
	case <-f.finishes:
		return texts("done"), nil
	}
}

// serve serves HTTP.
func (f *fake) serve(t *testing.T, around ...func(http.Handler) http.Handler) *httptest.Server {
	t.Helper()
	var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return f.Server }, nil)
	for _, a := range around {
		h = a(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() { end(f.Server, s) })
	return s
}

// end ends a server and its connections.
func end(server *sdk.Server, s *httptest.Server) {
	s.CloseClientConnections()
	for session := range server.Sessions() {
		_ = session.Close()
	}
	s.Close()
}

// open opens a manager that retries quickly.
func open(t *testing.T, cfg Config) *Manager {
	t.Helper()
	if cfg.Backoff == (Backoff{}) {
		cfg.Backoff = Backoff{First: 5 * time.Millisecond, Most: 20 * time.Millisecond}
	}
	m, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// ready waits until all servers are connected.
func ready(t *testing.T, m *Manager) {
	t.Helper()
	for _, s := range m.Settle(within(t)) {
		if s.State != Ready || s.Err != nil {
			t.Fatalf("server %s is %s: %v", s.Server, s.State, s.Err)
		}
	}
}

// within limits what a test waits for.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// names returns the names of all tools on offer.
func names(t *testing.T, m *Manager) []string {
	t.Helper()
	var out []string
	for _, s := range m.Sources() {
		tools, err := s.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tools {
			out = append(out, x.Spec().Name)
		}
	}
	return out
}

// named finds a tool on offer.
func named(t *testing.T, m *Manager, name string) tool.Tool {
	t.Helper()
	for _, s := range m.Sources() {
		tools, err := s.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tools {
			if x.Spec().Name == name {
				return x
			}
		}
	}
	t.Fatalf("no tool %s among %v", name, names(t, m))
	return nil
}

// invoke runs a call the way hosts do.
func invoke(t *testing.T, x tool.Tool, input string) tool.Result {
	t.Helper()
	return tool.Invoke(within(t), x, tool.Call{ID: "c1", Name: x.Spec().Name, Input: json.RawMessage(input), IdempotencyKey: "s1/t1-r1-c1"})
}

func wantText(t *testing.T, r tool.Result, status content.Status, code, text string) {
	t.Helper()
	if got := r.Result; got.Status != status || got.Code != code || !strings.Contains(got.Text(), text) {
		t.Errorf("result = %s %q %q, want %s %q %q", got.Status, got.Code, got.Text(), status, code, text)
	}
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := within(t)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("timeout waiting for %s", what)
		}
	}
}
