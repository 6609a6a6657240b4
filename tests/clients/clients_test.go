//go:build clients

package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

const (
	token  = "the-token-of-clients"
	script = `
replies:
  - text: "I will run it."
    chunk: 3
    calls: [{name: shell_exec, input: {argv: ["sh", "-c", "until test -e %s; do sleep 0.05; done; printf hi"]}}]
  - text: "That was hi"
  - text: "You said {{.Prompt}}, and that takes a while to say."
    chunk: 3
    repeat: true
`
)

func TestTheClientOfOpenAIUsesSessions(t *testing.T) { run(t, "openai.mjs", "/v1") }

func TestTheAISDKUsesSessions(t *testing.T) { run(t, "ai.mjs", "") }

func TestTheClientOfAGUIUsesSessions(t *testing.T) { run(t, "ag-ui.mjs", "") }

func TestClientsOfMCPUseSessions(t *testing.T) { run(t, "mcp.mjs", "") }

const writes = `
replies:
  - text: "I will write it."
    chunk: 3
    calls: [{name: fs_write_file, input: {path: a.txt, content: "hello\n"}}]
  - {text: "You said {{.Prompt}}.", repeat: true}
`

func TestAClientOfACPUsesSessions(t *testing.T) {
	t.Parallel()
	bin, err := clitest.Build(t.Context(), "./cmd/turnlog")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "script.yaml")
	if err := os.WriteFile(file, []byte(writes), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Follow(t, nil, "acpx.mjs", filepath.Join(bin, "turnlog"), file, dir)
}

// run runs a client program against two gateways. The first one stops in the middle. The agent's tool runs
// until a file exists, which the program creates.
func run(t *testing.T, program, path string) {
	t.Helper()
	t.Parallel()
	s := clitest.NewSite(t, "TURNLOG_GATEWAY_TOKEN="+token)
	dir := t.TempDir()
	file, answer := filepath.Join(dir, "script.yaml"), filepath.Join(dir, "answer")
	if err := os.WriteFile(file, fmt.Appendf(nil, script, answer), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := func() (base string, stop func()) {
		g := s.Start("turnlog", "gateway", "--listen", "127.0.0.1:0", "--model", "scripted:"+file)
		return g.AwaitMatch(t, `(http://127\.0\.0\.1:\d+)/`) + path, g.Stop
	}
	first, stop := gateway()
	second, _ := gateway()
	clitest.Follow(t, map[string]func(){"stop the first gateway": stop}, program, first, second, token, answer)
}
