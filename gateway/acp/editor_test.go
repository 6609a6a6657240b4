package acp_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/acp"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

func TestMain(m *testing.M) { turnlogtest.Main(m) }

// editor is a client of the protocol.
type editor struct {
	sdk.Client // an agent asks for nothing else

	t     testing.TB
	agent *sdk.ClientSideConnection
	in    io.WriteCloser // of the agent
	leave func()         // as an editor that closes the connection does
	stop  func()         // as a signal does

	asked   chan sdk.RequestPermissionRequest
	answers chan sdk.PermissionOptionId
	gone    chan string // tool calls whose questions were withdrawn

	mu      sync.Mutex
	updates []sdk.SessionUpdate
}

// connect starts an agent for a script of the model, in which every call needs approval, and connects an editor.
func connect(t testing.TB, d *turnlogtest.Deployment, script string, change ...func(*client.Options)) *editor {
	t.Helper()
	return connectOver(t, d, d.Connect(), script, change...)
}

// connectOver is connect with a given connection to the agent.
func connectOver(t testing.TB, d *turnlogtest.Deployment, nc *nats.Conn, script string, change ...func(*client.Options)) *editor {
	t.Helper()
	o := client.Options{Config: events.Config{
		Model: "scripted:test", ModelData: []byte(script), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}},
	}}
	for _, f := range change {
		f(&o)
	}
	toAgent, in := io.Pipe()
	out, fromAgent := io.Pipe()
	c, err := client.Open(nc, "", client.WithName("ann"))
	if err != nil {
		t.Fatal(err)
	}
	host := &acp.Host{Client: c, Start: o}
	cfg := acp.Config{
		Open: func(context.Context, string) (*acp.Host, error) { return host, nil }, Answer: 10 * time.Second, Log: zaptest.NewLogger(t),
	}
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(d.Ctx)
	go func() {
		served <- acp.Serve(ctx, cfg, toAgent, fromAgent)
		_ = fromAgent.Close()
	}()
	e := &editor{
		t: t, in: in, asked: make(chan sdk.RequestPermissionRequest, 8), answers: make(chan sdk.PermissionOptionId), gone: make(chan string, 8),
	}
	end := func(first func(), want error) func() {
		return func() {
			first()
			if err := <-served; !errors.Is(err, want) {
				t.Errorf("serve: %v", err)
			}
			stop()
			_ = in.Close()
			_ = out.Close()
			<-e.agent.Done()
		}
	}
	e.leave, e.stop = sync.OnceFunc(end(func() { _ = in.Close() }, nil)), end(stop, context.Canceled)
	e.agent = sdk.NewClientSideConnection(e, in, out)
	return e
}

func (e *editor) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates = append(e.updates, n.Update)
	return nil
}

func (e *editor) RequestPermission(ctx context.Context, r sdk.RequestPermissionRequest) (sdk.RequestPermissionResponse, error) {
	e.asked <- r
	select {
	case option := <-e.answers:
		if option == "" {
			return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeCancelled()}, nil
		}
		return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeSelected(option)}, nil
	case <-ctx.Done():
		e.gone <- string(r.ToolCall.ToolCallId)
		return sdk.RequestPermissionResponse{}, context.Cause(ctx)
	}
}

// open opens a session in the folder /site.
func (e *editor) open() sdk.SessionId {
	e.t.Helper()
	r, err := e.agent.NewSession(e.t.Context(), sdk.NewSessionRequest{Cwd: "/site", McpServers: []sdk.McpServer{}})
	if err != nil {
		e.t.Fatal(err)
	}
	return r.SessionId
}

func (e *editor) load(id sdk.SessionId) {
	e.t.Helper()
	if _, err := e.agent.LoadSession(e.t.Context(), sdk.LoadSessionRequest{SessionId: id, Cwd: "/site", McpServers: []sdk.McpServer{}}); err != nil {
		e.t.Fatal(err)
	}
}

// turn is how a prompt ended.
type turn struct {
	sdk.PromptResponse

	err error
}

// prompt sends a prompt. The channel receives how it ended.
func (e *editor) prompt(id sdk.SessionId, text string) <-chan turn {
	over := make(chan turn, 1)
	go func() {
		r, err := e.agent.Prompt(e.t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock(text)}})
		over <- turn{r, err}
	}()
	return over
}

// expect checks how a prompt ends.
func expect(t testing.TB, over <-chan turn, want sdk.StopReason) {
	t.Helper()
	if got := <-over; got.err != nil || got.StopReason != want {
		t.Errorf("the turn ended with %q, %v; want %q", got.StopReason, got.err, want)
	}
}

// lines returns what the editor shows: texts, and for each call its place, kind, status and title as they change.
func (e *editor) lines() (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var text strings.Builder
	var author string
	flush := func(next string) {
		if author != next && text.Len() > 0 {
			all = append(all, author+text.String())
			text.Reset()
		}
		author = next
	}
	say := func(who string, b sdk.ContentBlock) {
		flush(who)
		text.WriteString(b.Text.Text)
	}
	for _, u := range e.updates {
		switch {
		case u.UserMessageChunk != nil:
			say("user: ", u.UserMessageChunk.Content)
		case u.AgentMessageChunk != nil:
			say("agent: ", u.AgentMessageChunk.Content)
		case u.AgentThoughtChunk != nil:
			say("thought: ", u.AgentThoughtChunk.Content)
		case u.ToolCall != nil:
			flush("")
			all = append(all, string(u.ToolCall.ToolCallId)+" "+u.ToolCall.Title+" "+string(u.ToolCall.Status))
		case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
			flush("")
			all = append(all, string(u.ToolCallUpdate.ToolCallId)+" "+string(*u.ToolCallUpdate.Status))
		}
	}
	flush("")
	return all
}

// code returns the code of an error of the protocol.
func code(err error) int {
	if e, ok := errors.AsType[*sdk.RequestError](err); ok {
		return e.Code
	}
	return 0
}

// stamp is a tool that stamps a text.
func stamp(t testing.TB) tool.Tool {
	t.Helper()
	s, err := tool.Func("stamp", "Stamps.", func(_ context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		return "stamped " + in.Text, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
