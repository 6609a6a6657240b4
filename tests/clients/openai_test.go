//go:build clients

package clients

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// site is a deployment of real processes.
type site struct {
	t      *testing.T
	bin    string
	server string
}

// start runs a program until the returned function ends it, and returns what it prints.
func (s *site) start(name string, args ...string) (screen *clitest.Screen, stop func()) {
	s.t.Helper()
	screen = clitest.NewScreen()
	ctx, cancel := context.WithCancel(s.t.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Stdout, cmd.Stderr = screen, screen
	cmd.Env = append(os.Environ(), "TURNLOG_GATEWAY_TOKEN="+token, "NATS_URL="+s.server)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	s.t.Cleanup(stop)
	return screen, stop
}

// TestTheClientOfOpenAIUsesSessions runs openai.mjs against two gateways, of which the first stops in the middle.
func TestTheClientOfOpenAIUsesSessions(t *testing.T) {
	t.Parallel()
	bin, err := clitest.Build(t.Context(), "./cmd/...")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, bin: bin}
	screen, _ := s.start("turnlog", "server", "--open", "--listen", "127.0.0.1:0", "--store", t.TempDir())
	s.server = "nats://" + screen.AwaitMatch(t, `nats://(127\.0\.0\.1:\d+)`)
	worker, _ := s.start("tool-worker", "--tools", "shell", "--root", t.TempDir(), "--sandbox", "none")
	worker.Await(t, "worker started")
	node, _ := s.start("driver-node")
	node.Await(t, "node started")
	file := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := func() (base string, stop func()) {
		screen, stop := s.start("turnlog", "gateway", "--listen", "127.0.0.1:0", "--model", "scripted:"+file)
		return screen.AwaitMatch(t, `(http://127\.0\.0\.1:\d+)/`) + "/v1", stop
	}
	first, stop := gateway()
	second, _ := gateway()
	cmd := exec.CommandContext(t.Context(), "node", "openai.mjs", first, second, token)
	errs := &strings.Builder{}
	cmd.Stderr = errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		t.Log(lines.Text())
		if lines.Text() != "stop the first gateway" {
			continue
		}
		stop()
		if _, err := in.Write([]byte("done\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
}
