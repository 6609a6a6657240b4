package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/tool"
)

// serveMCP runs an MCP server with a tool that only reads, and one that declares nothing.
func serveMCP(t *testing.T) (url string) {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	echo := func(_ context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "echo of " + in.Text}}}, nil, nil
	}
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Says it again.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, echo)
	sdk.AddTool(s, &sdk.Tool{Name: "shout", Description: "Says it loudly."}, echo)
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h.URL
}

func TestToolsAreListedWithTheirSources(t *testing.T) {
	t.Parallel()
	url := serveMCP(t)
	p := expect(t, cli.CodeOK, "tools", "ls", "--root", t.TempDir(), "--mcp", "x="+url, "--mcp", "bad=/no/such/program a")
	for _, want := range []string{
		"NAME SOURCE EFFECTS DESCRIPTION", "fs_read_file fs read_only Reads a text file", "mcp_x_echo mcp:x read_only Says it again.", "mcp_x_shout mcp:x - Says it loudly.",
	} {
		if !strings.Contains(strings.Join(strings.Fields(p.out.String()), " "), want) {
			t.Errorf("no %q in\n%s", want, p.out)
		}
	}
	if want := "MCP server bad and its tools are not available: start: "; !strings.HasPrefix(p.err.String(), want) || strings.Count(p.err.String(), "\n") != 1 {
		t.Errorf("stderr = %q, want %q", p.err, want)
	}
	p = expect(t, cli.CodeOK, "tools", "ls", "-o", "json", "--root", t.TempDir(), "--tools", "shell", "--mcp", "x="+url)
	var rows []toolRow
	if err := json.Unmarshal([]byte(p.out.String()), &rows); err != nil || len(rows) != 3 || p.err.String() != "" {
		t.Fatalf("%s%s: %v", p.out, p.err, err)
	}
	if r := rows[0]; r.Name != "mcp_x_echo" || r.Source != "mcp:x" || r.Effects != "read_only" || !strings.Contains(string(r.InputSchema), `"text"`) {
		t.Errorf("first row = %+v", r)
	}
	if r := rows[2]; r.Name != "shell_exec" || r.Source != "shell" || r.Effects != "" {
		t.Errorf("last row = %+v", r)
	}
}

func TestToolsOfADeploymentAreListed(t *testing.T) {
	t.Parallel()
	hi, err := tool.Func("hi", "Says hi.", func(context.Context, struct{}) (string, error) { return "hi", nil }, tool.Idempotent())
	if err != nil {
		t.Fatal(err)
	}
	url := cellOf(t, node(), hi)
	p := expect(t, cli.CodeOK, "tools", "ls", "--server", url, "-o", "json")
	var rows []toolRow
	if err := json.Unmarshal([]byte(p.out.String()), &rows); err != nil || len(rows) != 1 || rows[0].Name != "hi" || !strings.HasSuffix(rows[0].Source, "@"+defaultQueue) {
		t.Errorf("%s: %v", p.out, err)
	}
	p = expect(t, cli.CodeUsage, "tools", "ls", "--server", url, "--mcp", "x=http://127.0.0.1:1")
	if !strings.Contains(p.err.String(), "--mcp is for the worker of this process") {
		t.Errorf("stderr = %s", p.err)
	}
}

func TestRunUsesAvailableMCPServers(t *testing.T) {
	t.Parallel()
	model := scripted(t, "replies:\n  - calls: [{name: mcp_x_echo, input: {text: hello}}]\n  - text: \"It said {{(index .Results 0).Text}}.\"\n")
	p := expect(t, cli.CodeOK, "run", "--root", t.TempDir(), "--model", model, "--mcp", "x="+serveMCP(t), "--mcp", "bad=/no/such/program", "hi")
	if !strings.Contains(p.out.String(), "It said echo of hello.") || !strings.Contains(p.err.String(), "MCP server bad and its tools are not available") {
		t.Errorf("printed %s\n%s", p.out, p.err)
	}
	// A tool that its server does not declare read-only needs an approval.
	model = scripted(t, "replies:\n  - calls: [{name: mcp_x_shout, input: {text: hello}}]\n  - text: done\n")
	p = expect(t, cli.CodeApproval, "run", "--root", t.TempDir(), "--model", model, "--mcp", "x="+serveMCP(t), "hi")
	if !strings.Contains(p.err.String(), "mcp_x_shout") {
		t.Errorf("stderr = %s", p.err)
	}
}

func TestToolsOfAnAgent(t *testing.T) {
	t.Parallel()
	dir := folderOf(t, map[string]string{
		"lead.yaml": "model: demo\nagents: [tester]\nmcp: {x: {url: '" + serveMCP(t) + "'}}\ncontext: {skills: [skills]}\n" +
			"tools:\n  - {name: fs_count, permission: deny}\n  - {name: fs_read_file, effects: none, timeout: 3s, max_output: 500}\n" +
			"  - {name: mcp_x_shout, permission: allow, route: 'detach:30s'}\n  - {name: mcp_x_echo}\n",
		"tester.yaml": "description: Tests things\nmodel: demo\n",
	})
	root := folderOf(t, map[string]string{"skills/notes/SKILL.md": "---\nname: notes\ndescription: How to write notes\n---\nWrite short ones.\n"})
	p := expect(t, cli.CodeOK, "tools", "ls", "--root", root, "--agent", filepath.Join(dir, "lead.yaml"))
	var lines []string
	for line := range strings.Lines(p.out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line)[:min(5, len(strings.Fields(line)))], " "))
	}
	want := []string{
		"NAME SOURCE EFFECTS CALLS DESCRIPTION", "agent_tester agents idempotent allow, foreground", "fs_read_file fs - ask, foreground",
		"mcp_x_echo mcp:x read_only allow, foreground", "mcp_x_shout mcp:x - allow, detach:30s", "skill_activate skills read_only allow, foreground",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("tools (-want +got):\n%s%s", diff, p.out)
	}
	var rows []toolRow
	out := expect(t, cli.CodeOK, "tools", "ls", "-o", "json", "--root", root, "--agent", filepath.Join(dir, "lead.yaml")).out.String()
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 5 {
		t.Fatalf("%v: %s", err, out)
	}
	if r := rows[1]; r.ToolUse == nil || r.Timeout != "3s" || r.MaxOutput != 500 || r.Permission != "ask" {
		t.Errorf("fs_read_file: %+v", r)
	}
	for args, want := range map[string]string{
		"lead":      "--agent lead: in this process name a file, such as lead.yaml",
		"none.yaml": "agent file: open none.yaml",
	} {
		if p := expect(t, cli.CodeUsage, "tools", "ls", "--root", root, "--agent", args); !strings.Contains(p.err.String(), want) {
			t.Errorf("%s: %q, want %q", args, p.err, want)
		}
	}
}

// An MCP server requires a token and a header. Both come from references, and are never printed.
func TestSecretsOfServersAreNeverPrinted(t *testing.T) {
	t.Parallel()
	const canary = "canary-7f3a"
	inner := serveMCP(t)
	target, err := url.Parse(inner)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+canary || r.Header.Get("X-Team-Key") != canary+"-2" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	model := scripted(t, "replies:\n  - calls: [{name: mcp_x_echo, input: {text: hello}}]\n  - text: \"It said {{(index .Results 0).Text}}.\"\n")
	dir := folderOf(t, map[string]string{
		"token": canary + "\n", "key": canary + "-2",
	})
	token, key := "file:"+filepath.Join(dir, "token"), "file:"+filepath.Join(dir, "key")
	file := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(file, []byte("model: '"+model+"'\nmcp: {x: {url: '"+server.URL+"', token: '"+token+"', headers: {X-Team-Key: '"+key+"'}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"agent file":   {"--agent", file},
		"command line": {"--model", model, "--mcp", "x=" + server.URL, "--mcp-token", "x=" + token, "--mcp-header", "x=X-Team-Key=" + key},
	} {
		p := expect(t, cli.CodeOK, append([]string{"run", "--root", t.TempDir(), "-o", "jsonl", "--log-level", "debug", "hi"}, args...)...)
		if !strings.Contains(p.out.String(), "It said echo of hello.") {
			t.Errorf("%s: %s\n%s", name, p.out, p.err)
		}
		if strings.Contains(p.out.String()+p.err.String(), canary) {
			t.Errorf("%s: the secret is printed", name)
		}
	}
}
