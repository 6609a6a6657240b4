package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// serveMCP runs an MCP server whose calls need a token, which can be revoked.
func serveMCP(t *testing.T, token string) *httptest.Server {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "hi"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hi from afar"}}}, nil, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"tools/call"`)) && r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

// hasTool reports whether a tool is on offer.
func (d *deployment) hasTool(ctx context.Context, name string) bool {
	all, err := d.offers(ctx)
	return err == nil && len(all) > 0 && slices.ContainsFunc(all[0].Tools, func(s tool.Spec) bool { return s.Name == name })
}

func TestAWorkerOffersToolsOfMCPServers(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	server := serveMCP(t, "right")
	file := filepath.Join(t.TempDir(), "token")
	w := d.start("--root", t.TempDir(), "--mcp", "x="+server.URL+"/?key=hidden", "--mcp-token", "x=file:"+file, "--mcp", "bad=/no/such/program")
	d.eventually("the reason is logged", func(context.Context) bool {
		return strings.Contains(w.log.String(), "no such file or directory")
	})
	if err := os.WriteFile(file, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.eventually("the server's tools are on offer", func(ctx context.Context) bool { return d.hasTool(ctx, "mcp_x_hi") })
	d.call("mcp_x_hi", `{}`)
	r := d.result()
	if r.Result.Code != tool.CodeAuth || !strings.Contains(string(r.Auth), `"id":"mcp:x:tools/call"`) || !strings.HasPrefix(r.Result.Text(), "Authorization required: x: tool_call") {
		t.Errorf("result = %+v, auth %s", r.Result, r.Auth)
	}
	server.CloseClientConnections()
	server.Close()
	w.end()
	if cfg := w.line("configuration"); strings.Contains(w.log.String(), "hidden") || len(cfg["mcp"].([]any)) != 2 {
		t.Errorf("configuration = %v, and the log:\n%s", cfg, w.log)
	}
}

func TestTheNextCallUsesARenewedToken(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("right"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := d.start("--root", t.TempDir(), "--mcp", "x="+serveMCP(t, "right").URL, "--mcp-token", "x=file:"+file)
	d.eventually("the server's tools are on offer", func(ctx context.Context) bool { return d.hasTool(ctx, "mcp_x_hi") })
	d.call("mcp_x_hi", `{}`)
	if r := d.result().Result; r.Status != content.StatusOK || r.Text() != "hi from afar" {
		t.Errorf("result = %+v", r)
	}
	w.end()
}
