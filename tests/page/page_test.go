//go:build browser

package page

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

const (
	token  = "token-of-the-walk"
	script = `
replies:
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "echo hi"]}}]
  - text: "That was **bold**. <img src=x onerror=alert(1)>"
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "echo two"]}}]
  - text: "Done."
  - text: "You said {{.Prompt}}"
    repeat: true
`
)

// TestAPersonWalksThroughThePage starts a server, a node and a gateway, and lets a browser walk through the page. The
// gateway is stopped and started again meanwhile.
func TestAPersonWalksThroughThePage(t *testing.T) {
	t.Parallel()
	s := clitest.NewSite(t, "TURNLOG_GATEWAY_TOKEN="+token)
	file := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Run(5, "turnlog", "run", "--session", "walk", "--model", "scripted:"+file, "Go") // it waits for an approval

	var cfg net.ListenConfig
	l, err := cfg.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String() // which stays while the gateway is started again
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	gateway := func() (stop func()) {
		screen, stop := s.Start("turnlog", "gateway", "--listen", address)
		screen.Await(t, "http://")
		return stop
	}
	stop := gateway()

	pictures := os.Getenv("TURNLOG_SCREENSHOTS")
	if pictures == "" {
		pictures = t.TempDir()
	}
	clitest.Follow(t, map[string]func(){
		"stop the gateway":        func() { stop() },
		"send the text meanwhile": func() { s.Run(0, "turnlog", "send", "walk", "meanwhile") },
		"start the gateway":       func() { stop = gateway() },
	}, "walk.mjs", "http://"+address+"/", token, pictures)
}
