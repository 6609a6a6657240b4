//go:build mcpservers

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/mcp"
)

// program returns the command that starts a server in node_modules.
func program(t *testing.T, name string, args ...string) []string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("node_modules", "@modelcontextprotocol", "server-"+name, "dist", "index.js"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v: run .ci/setup, which installs it", err)
	}
	return append([]string{"node", file}, args...)
}

func open(t *testing.T, cfg mcp.Config) *mcp.Manager {
	t.Helper()
	cfg.Backoff = mcp.Backoff{First: 50 * time.Millisecond, Most: time.Second}
	m, err := mcp.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	for _, s := range m.Settle(within(t)) {
		if s.State != mcp.Ready {
			t.Fatalf("server %s is %s: %v", s.Server, s.State, s.Err)
		}
	}
	return m
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func lookup(t *testing.T, m *mcp.Manager, name string) (tool.Tool, bool) {
	t.Helper()
	c, err := tool.Sample(t.Context(), m.Sources(), tool.ErrorOnCollision)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := c.Lookup(name)
	return o.Tool, ok
}

// await waits for a tool, which servers may add once they know their client.
func await(t *testing.T, m *mcp.Manager, name string) tool.Tool {
	t.Helper()
	ctx, tick := within(t), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		if x, ok := lookup(t, m, name); ok {
			return x
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("there is no tool %s", name)
		}
	}
}

func invoke(t *testing.T, m *mcp.Manager, name string, input any) content.ToolResult {
	t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Invoke(within(t), await(t, m, name), tool.Call{ID: "c1", Name: name, Input: raw}).Result
}

type args map[string]any

func wantOK(t *testing.T, r content.ToolResult, text string) {
	t.Helper()
	if r.Status != content.StatusOK || !strings.Contains(r.Text(), text) {
		t.Errorf("%s = %s %q %+v, want %q", r.Name, r.Status, r.Code, r.Output, text)
	}
}

// everything is the server with every feature, over each transport.
func everything(t *testing.T) map[string]mcp.Server {
	t.Helper()
	return map[string]mcp.Server{
		"stdio": {Name: "all", Command: program(t, "everything", "stdio")},
		"http":  {Name: "all", URL: serve(t, program(t, "everything", "streamableHttp"))},
	}
}

// serve serves a server over HTTP until the test ends.
func serve(t *testing.T, command []string) (url string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // it is ended below
	cmd.Env = append(os.Environ(), "PORT="+strconv.Itoa(address.Port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ctx, tick := within(t), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		var d net.Dialer
		if c, err := d.DialContext(ctx, "tcp", address.String()); err == nil {
			_ = c.Close()
			return fmt.Sprintf("http://%s/mcp", address)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the server does not listen")
		}
	}
}

func TestEverything(t *testing.T) {
	t.Parallel()
	for name, server := range everything(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			m := open(t, mcp.Config{
				Servers: []mcp.Server{server}, Roots: []string{root},
				Sampling: func(_ context.Context, _ string, p *sdk.CreateMessageParams) (*sdk.CreateMessageResult, error) {
					return &sdk.CreateMessageResult{Model: "none", Role: "assistant", Content: &sdk.TextContent{Text: "a reply of ours"}}, nil
				},
				Elicitation: func(context.Context, string, *sdk.ElicitParams) (*sdk.ElicitResult, error) {
					return &sdk.ElicitResult{Action: "decline"}, nil
				},
			})
			wantOK(t, invoke(t, m, "mcp_all_echo", args{"message": "hello"}), "hello")
			wantOK(t, invoke(t, m, "mcp_all_get-sum", args{"a": 19, "b": 23}), "42")
			wantOK(t, invoke(t, m, "mcp_all_trigger-sampling-request", args{"prompt": "say", "maxTokens": 10}), "a reply of ours")
			wantOK(t, invoke(t, m, "mcp_all_trigger-elicitation-request", args{}), "decline")
			wantOK(t, invoke(t, m, "mcp_all_get-roots-list", args{}), root)
			image := invoke(t, m, "mcp_all_get-tiny-image", args{})
			if !slices.ContainsFunc(image.Output, func(p content.Part) bool {
				return p.Media != nil && p.Media.MIME == "image/png" && len(p.Media.Bytes) > 100
			}) {
				t.Errorf("image = %+v", image)
			}
			weather := invoke(t, m, "mcp_all_get-structured-content", args{"location": "Chicago"})
			if len(weather.Output) != 1 || weather.Output[0].Kind != content.StructuredKind || !strings.Contains(string(weather.Output[0].Data), `"temperature"`) {
				t.Errorf("structured content = %+v", weather)
			}
			wantOK(t, invoke(t, m, "mcp_all_get-resource-links", args{"count": 2}), "[resource demo://resource/")
			wantOK(t, invoke(t, m, "mcp_all_get-resource-reference", args{"resourceType": "Text", "resourceId": 1}), "Resource 1")
			resources := invoke(t, m, "mcp_all_list_resources", args{})
			if len(resources.Output) != 1 || !strings.Contains(string(resources.Output[0].Data), `"templates":[{"uri":"demo://resource/`) {
				t.Errorf("resources = %+v", resources)
			}
			wantOK(t, invoke(t, m, "mcp_all_read_resource", args{"uri": "demo://resource/dynamic/text/7"}), "7")
			wantOK(t, invoke(t, m, "mcp_all_get_prompt", args{"name": "simple-prompt"}), "user: ")
			wantOK(t, invoke(t, m, "mcp_all_get_prompt", args{"name": "args-prompt", "arguments": args{"city": "Oslo"}}), "Oslo")
			if r := invoke(t, m, "mcp_all_get_prompt", args{"name": "no-such-prompt"}); r.Status != content.StatusError {
				t.Errorf("a prompt that is not there: %+v", r)
			}
			for name, effects := range map[string]content.Effects{"mcp_all_echo": content.ReadOnly, "mcp_all_toggle-simulated-logging": content.Once} {
				if got := await(t, m, name).Spec().Effects; got != effects {
					t.Errorf("%s has the effects %q, want %q", name, got, effects)
				}
			}
		})
	}
}

func TestLongOperationReportsProgressAndEndsOnCancel(t *testing.T) {
	t.Parallel()
	for name, server := range everything(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := open(t, mcp.Config{Servers: []mcp.Server{server}})
			x := await(t, m, "mcp_all_trigger-long-running-operation")
			var shares []float64
			r := tool.Invoke(within(t), x, tool.Call{
				ID: "c1", Input: json.RawMessage(`{"duration":1,"steps":4}`),
				Progress: func(_ string, share float64) { shares = append(shares, share) },
			}).Result
			wantOK(t, r, "completed")
			if !slices.Contains(shares, 0.25) || !slices.Contains(shares, 0.75) {
				t.Errorf("progress = %v", shares)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if r := tool.Invoke(ctx, x, tool.Call{ID: "c2", Input: json.RawMessage(`{"duration":60,"steps":60}`)}).Result; r.Code != tool.CodeTimeout {
				t.Errorf("result = %+v", r)
			}
			wantOK(t, invoke(t, m, "mcp_all_echo", args{"message": "still there"}), "still there")
		})
	}
}

func TestFilesystem(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, mcp.Config{Servers: []mcp.Server{{Name: "fs", Command: program(t, "filesystem", root)}}, Roots: []string{root}})
	file := filepath.Join(root, "note.txt")
	wantOK(t, invoke(t, m, "mcp_fs_write_file", args{"path": file, "content": "buy milk"}), "")
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "buy milk" {
		t.Errorf("the file holds %q, %v", raw, err)
	}
	r := invoke(t, m, "mcp_fs_read_text_file", args{"path": file})
	if r.Status != content.StatusOK || !strings.Contains(string(r.Output[0].Data)+r.Text(), "buy milk") {
		t.Errorf("read = %+v", r)
	}
	if r := invoke(t, m, "mcp_fs_read_text_file", args{"path": "/etc/passwd"}); r.Status != content.StatusError || r.Code != tool.CodeFailed || !strings.Contains(r.Text(), "outside allowed directories") {
		t.Errorf("a file outside: %+v", r)
	}
	if got := await(t, m, "mcp_fs_move_file").Spec().Effects; got != content.Once {
		t.Errorf("moving has the effects %q", got)
	}
	if got := await(t, m, "mcp_fs_read_text_file").Spec().Effects; got != content.ReadOnly {
		t.Errorf("reading has the effects %q", got)
	}
}

func TestMemoryOutlivesItsServer(t *testing.T) {
	t.Parallel()
	server := mcp.Server{
		Name: "memory", Command: program(t, "memory"), Env: map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.jsonl")},
	}
	m := open(t, mcp.Config{Servers: []mcp.Server{server}})
	r := invoke(t, m, "mcp_memory_create_entities", args{"entities": []args{{"name": "Ann", "entityType": "person", "observations": []string{"likes tea"}}}})
	if r.Status != content.StatusOK {
		t.Fatalf("create = %+v", r)
	}
	m.Close()
	if _, there := lookup(t, m, "mcp_memory_read_graph"); there {
		t.Error("the tools of a server that is gone are on offer")
	}
	again := open(t, mcp.Config{Servers: []mcp.Server{server}})
	graph := invoke(t, again, "mcp_memory_read_graph", args{})
	if len(graph.Output) != 1 || !strings.Contains(string(graph.Output[0].Data), "likes tea") {
		t.Errorf("graph = %+v", graph)
	}
}
