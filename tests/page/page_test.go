//go:build browser

package page

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

const (
	token  = "walk-token"
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

// run runs turnlog to its end.
func (s *site) run(code int, args ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.bin, "turnlog"), args...)
	cmd.Env = append(os.Environ(), "NATS_URL="+s.server)
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != code {
		s.t.Fatalf("turnlog %v = %d, want %d\n%s", args, cmd.ProcessState.ExitCode(), code, out)
	}
}

// TestAPersonWalksThroughThePage starts a server, a node and a gateway, and lets a browser walk through the page. The
// gateway is stopped and started again meanwhile.
func TestAPersonWalksThroughThePage(t *testing.T) {
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
	s.run(5, "run", "--session", "walk", "--model", "scripted:"+file, "Go") // it waits for an approval

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
		screen, stop := s.start("turnlog", "gateway", "--listen", address)
		screen.Await(t, "http://")
		return stop
	}
	stop := gateway()

	pictures := os.Getenv("TURNLOG_SCREENSHOTS")
	if pictures == "" {
		pictures = t.TempDir()
	}
	walk := exec.CommandContext(t.Context(), "node", "walk.mjs", "http://"+address+"/", token, pictures)
	errs := &strings.Builder{}
	walk.Stderr = errs
	in, err := walk.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := walk.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := walk.Start(); err != nil {
		t.Fatal(err)
	}
	wish := regexp.MustCompile(`^please (.*)$`)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		m := wish.FindStringSubmatch(lines.Text())
		if m == nil {
			t.Log(lines.Text())
			continue
		}
		switch m[1] {
		case "stop the gateway":
			stop()
		case "send the text meanwhile":
			s.run(0, "send", "walk", "meanwhile")
		case "start the gateway":
			stop = gateway()
		default:
			t.Fatalf("the walk asks for %q", m[1])
		}
		if _, err := in.Write([]byte("done\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := walk.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
}
