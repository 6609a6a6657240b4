package examples

import (
	"errors"
	"net/http/cgi" //nolint:gosec // the server of the test, which runs one script of this folder
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/httptool"
)

// TestAShellScriptIsATool runs disk.sh as a CGI script. Package tests/clients runs the tools in other languages.
func TestAShellScriptIsATool(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if errors.Is(err, exec.ErrNotFound) {
		return // this system has no shell scripts
	}
	s := httptest.NewServer(&cgi.Handler{Path: sh, Args: []string{"http-tool/disk.sh"}, Dir: "."})
	t.Cleanup(s.Close)
	m, err := httptool.Open(t.Context(), httptool.Config{Services: []httptool.Service{{Name: "disk_free", URL: s.URL}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	for _, err := range m.Missing(t.Context()) {
		t.Fatal(err)
	}
	tools, err := m.Sources()[0].Tools(t.Context())
	if err != nil || len(tools) != 1 {
		t.Fatalf("tools = %v, %v", tools, err)
	}
	r := tool.Invoke(t.Context(), tools[0], tool.Call{ID: "c1"}).Result
	if r.Status != content.StatusOK || !strings.HasPrefix(r.Text(), "Filesystem") {
		t.Errorf("result = %s %s", r.Status, r.Text())
	}
}
