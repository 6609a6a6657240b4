package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"
	"go.uber.org/zap/zaptest"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/acp"
	"github.com/turnlog/turnlog/turnlogtest"
)

func TestErrorsSayWhatIsWrong(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		e := connect(t, d, "replies: [{text: one}]", allow)
		defer e.leave()
		id, ctx, servers := e.open(), t.Context(), []sdk.McpServer{}
		say := func(id sdk.SessionId, blocks ...sdk.ContentBlock) error {
			_, err := e.agent.Prompt(ctx, sdk.PromptRequest{SessionId: id, Prompt: blocks})
			return err
		}
		load := func(id sdk.SessionId, cwd string) error {
			_, err := e.agent.LoadSession(ctx, sdk.LoadSessionRequest{SessionId: id, Cwd: cwd, McpServers: servers})
			return err
		}
		_, relative := e.agent.NewSession(ctx, sdk.NewSessionRequest{Cwd: "site", McpServers: servers})
		_, mode := e.agent.SetSessionMode(ctx, sdk.SetSessionModeRequest{SessionId: id, ModeId: "code"})
		for _, c := range []struct {
			err  error
			code int
			text string
		}{
			{relative, -32602, `cwd \"site\" is not an absolute path`},
			{mode, -32601, "unknown method session/set_mode"},
			{load("nowhere", "/site"), -32002, `there is no session \"nowhere\" here`},
			{load("not an ID", "/site"), -32002, `there is no session`},
			{say("nowhere", sdk.TextBlock("Hi")), -32002, "use session/new or session/load first"},
			{say(id, sdk.TextBlock(" ")), -32602, "the prompt is empty"},
			{say(id), -32602, "prompt is required"},
			{say(id, sdk.ImageBlock("no base64", "image/png")), -32602, "prompt[0]: the data of image is not base64"},
			{say(id, sdk.TextBlock("Go.")), 0, ""},
			{say(id, sdk.TextBlock("More.")), -32603, "the script is exhausted"},
		} {
			if code(c.err) != c.code || c.err != nil && !strings.Contains(c.err.Error(), c.text) {
				t.Errorf("%v; want %d %s", c.err, c.code, c.text)
			}
		}
		late := connect(t, d, "")
		defer late.leave()
		late.load(id)
		if all := late.lines(); !strings.Contains(all[len(all)-1], "the turn failed") {
			t.Errorf("loaded: %q", all)
		}
	})
}

// Files in a prompt are attached, and large ones are stored. Files that it mentions get names that tools accept.
func TestAPromptHasFiles(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		e := connect(t, d, "replies: [{text: seen}]")
		defer e.leave()
		id := e.open()
		resource := func(text string) sdk.ContentBlock {
			return sdk.ResourceBlock(sdk.EmbeddedResourceResource{TextResourceContents: &sdk.TextResourceContents{Uri: "file:///site/docs/a.md", Text: text}})
		}
		large := strings.Repeat("x", 200<<10)
		r, err := e.agent.Prompt(t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{
			sdk.TextBlock("Compare "), sdk.ResourceLinkBlock("b.md", "file:///site/docs/b.md#L3"), sdk.TextBlock(" with these."), resource(large),
		}})
		if err != nil || r.StopReason != sdk.StopReasonEndTurn {
			t.Fatal(r, err)
		}
		in := turnlogtest.Facts[events.InputAccepted](d, content.SessionID(id))[0].Items[0]
		if got, want := in.Text(), "Compare [b.md](docs/b.md#L3) with these."; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		file := in.Parts[3]
		if _, stored := content.BlobID(file.Media.URI); file.Name != "docs/a.md" || file.Media.MIME != "text/plain" || !stored {
			t.Errorf("the file is %+v %+v", file, file.Media)
		}
	})
}

func TestLinesThatAreNoMessagesAreAnswered(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		toAgent, in := io.Pipe()
		out, fromAgent := io.Pipe()
		served := make(chan error, 1)
		go func() {
			cfg := acp.Config{
				Open: func(context.Context, string) (*acp.Host, error) { return &acp.Host{Client: d.Client}, nil }, Answer: time.Second, Log: zaptest.NewLogger(t),
			}
			served <- acp.Serve(d.Ctx, cfg, toAgent, fromAgent)
		}()
		huge := `{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"x":"` + strings.Repeat("x", 11<<20) + `"}}`
		lines := bufio.NewScanner(out)
		for _, c := range []struct{ line, want string }{
			{"nonsense", `null -32700 this line is not JSON`},
			{"[1]", `null -32600 this is not a JSON-RPC message`},
			{`{"jsonrpc":"2.0"}`, `null -32600 this is not a JSON-RPC message`},
			{huge, `7 -32600 the message has more than 9 MiB`},
			{"\n" + `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"x"}}`, `"a" -32602 invalid parameters`},
			{`{"jsonrpc":"2.0","id":8,"method":"session/dance"}`, `8 -32601 unknown method session/dance`},
			{`{"jsonrpc":"2.0","id":9,"method":"session/prompt"}`, `9 -32602 invalid parameters`},
		} {
			if _, err := io.WriteString(in, c.line+"\n"); err != nil {
				t.Fatal(err)
			}
			var m struct {
				ID    json.RawMessage
				Error sdk.RequestError
			}
			if !lines.Scan() || json.Unmarshal(lines.Bytes(), &m) != nil {
				t.Fatalf("%s: %v", lines.Text(), lines.Err())
			}
			n, _ := json.Marshal(m.Error.Code)
			if got := string(m.ID) + " " + string(n) + " " + m.Error.Message; !strings.HasPrefix(got, c.want) {
				t.Errorf("%.40s: %s; want %s", c.line, got, c.want)
			}
		}
		_ = in.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestWithoutANodeAPromptSaysSo(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		empty := turnlogtest.Empty(d.Ctx, t)
		e := connect(t, empty, "replies: [{text: x}]")
		defer e.leave()
		_, err := e.agent.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: "/site", McpServers: []sdk.McpServer{}})
		if code(err) != -32603 || !strings.Contains(err.Error(), "start a driver-node") {
			t.Error(err)
		}
	})
}

func TestSessionsAreListedByFolderAndClosed(t *testing.T) {
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		e := connect(t, d, once)
		defer e.leave()
		id := e.open()
		d.Script("replies: [{text: x}]") // not from an editor
		over := e.prompt(id, "Stamp it.")
		<-e.asked
		for folder, want := range map[string]int{"/site": 1, "/other": 0, "": 1} {
			r := sdk.ListSessionsRequest{}
			if folder != "" {
				r.Cwd = &folder
			}
			list, err := e.agent.ListSessions(t.Context(), r)
			if err != nil || len(list.Sessions) != want || want > 0 && (list.Sessions[0].SessionId != id || list.Sessions[0].Cwd != "/site" || *list.Sessions[0].Title != "Stamp it.") {
				t.Errorf("%s: %+v, %v", folder, list, err)
			}
		}
		if _, err := e.agent.CloseSession(t.Context(), sdk.CloseSessionRequest{SessionId: id}); err != nil {
			t.Error(err)
		}
		expect(t, over, sdk.StopReasonCancelled)
		before := len(e.lines())
		if _, err := e.agent.ResumeSession(t.Context(), sdk.ResumeSessionRequest{SessionId: id, Cwd: "/site"}); err != nil {
			t.Fatal(err)
		}
		if got := e.lines(); len(got) != before {
			t.Errorf("resumed with %q", got[before:])
		}
		expect(t, e.prompt(id, "Again."), sdk.StopReasonEndTurn)
	}, turnlogtest.Tools(stamp(t)))
}
