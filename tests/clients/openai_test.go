//go:build clients

package clients

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

const (
	token  = "clients-token"
	script = `
replies:
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "printf hi"]}}]
  - text: "That was hi"
  - text: "You said {{.Prompt}}, and that takes a while to say."
    chunk: 3
    repeat: true
`
)

// TestTheClientOfOpenAIUsesSessions runs openai.mjs against two gateways, of which the first stops in the middle.
func TestTheClientOfOpenAIUsesSessions(t *testing.T) {
	t.Parallel()
	s := clitest.NewSite(t, "TURNLOG_GATEWAY_TOKEN="+token)
	file := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := func() (base string, stop func()) {
		screen, stop := s.Start("turnlog", "gateway", "--listen", "127.0.0.1:0", "--model", "scripted:"+file)
		return screen.AwaitMatch(t, `(http://127\.0\.0\.1:\d+)/`) + "/v1", stop
	}
	first, stop := gateway()
	second, _ := gateway()
	clitest.Follow(t, map[string]func(){"stop the first gateway": stop}, "openai.mjs", first, second, token)
}
