package clitest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Site is a deployment of real processes: a server, a worker with a shell, and a node.
type Site struct {
	NATS string // the server's address

	t   testing.TB
	bin string
	env []string
}

// NewSite builds the binaries and starts a site that lasts until the test ends. Its programs have these variables too.
func NewSite(t testing.TB, env ...string) *Site {
	t.Helper()
	bin, err := Build(t.Context(), "./cmd/...")
	if err != nil {
		t.Fatal(err)
	}
	s := &Site{t: t, bin: bin, env: append(os.Environ(), env...)}
	server, _ := s.Start("turnlog", "server", "--open", "--listen", "127.0.0.1:0", "--store", t.TempDir())
	s.NATS = server.AwaitMatch(t, `nats://127\.0\.0\.1:\d+`)
	s.env = append(s.env, "NATS_URL="+s.NATS)
	worker, _ := s.Start("tool-worker", "--tools", "shell", "--root", t.TempDir(), "--sandbox", "none")
	worker.Await(t, "worker started")
	node, _ := s.Start("driver-node")
	node.Await(t, "node started")
	return s
}

// Start starts a program that runs until stop, and returns its output.
func (s *Site) Start(name string, args ...string) (screen *Screen, stop func()) {
	s.t.Helper()
	screen = NewScreen()
	ctx, cancel := context.WithCancel(s.t.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = Patience
	cmd.Stdout, cmd.Stderr = screen, screen
	cmd.Env = s.env
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

// Run runs a program to its end, which must have this exit code.
func (s *Site) Run(code int, name string, args ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.bin, name), args...)
	cmd.Env = s.env
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != code {
		s.t.Fatalf("%s %v = %d, want %d\n%s", name, args, cmd.ProcessState.ExitCode(), code, out)
	}
}

// Follow runs a script of Node to its end. A line "please X" asks for help X, and is answered by a line when that is done.
func Follow(t testing.TB, help map[string]func(), script string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", append([]string{script}, args...)...)
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
		what, asks := strings.CutPrefix(lines.Text(), "please ")
		if !asks {
			continue
		}
		do := help[what]
		if do == nil {
			t.Fatalf("%s asks for %q", script, what)
		}
		do()
		if _, err := in.Write([]byte("done\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, errs)
	}
}
