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

// Site is a deployment of real processes.
type Site struct {
	NATS string // the server's address

	t      testing.TB
	bin    string
	env    []string
	store  string   // the server's
	server *Program // nil: another site started the server
}

// NewSite builds the binaries and starts a server, a worker with a shell, and a node, which run until the test ends. env has
// additional variables for its programs.
func NewSite(t testing.TB, env ...string) *Site {
	t.Helper()
	bin, err := Build(t.Context(), "./cmd/...")
	if err != nil {
		t.Fatal(err)
	}
	s := NewCell(t, bin, env...)
	s.Start("tool-worker", "--tools", "shell", "--root", t.TempDir(), "--sandbox", "none").Await(t, "worker started")
	s.Start("driver-node").Await(t, "node started")
	return s
}

// NewCell starts a site with only a server, and the programs in the folder bin.
func NewCell(t testing.TB, bin string, env ...string) *Site {
	t.Helper()
	s := &Site{t: t, bin: bin, env: append(os.Environ(), env...), store: t.TempDir()}
	s.Serve("127.0.0.1:0")
	s.env = append(s.env, "NATS_URL="+s.NATS)
	return s
}

// Serve starts the server of a site, or restarts one that has ended with its stored data.
func (s *Site) Serve(address string) {
	s.t.Helper()
	s.server = s.Start("turnlog", "server", "--open", "--listen", address, "--store", s.store)
	s.NATS = s.server.AwaitMatch(s.t, `nats://127\.0\.0\.1:\d+`)
}

// Server returns the server's program, and its store directory.
func (s *Site) Server() (p *Program, store string) { return s.server, s.store }

// Of returns the same site with the programs in the folder bin.
func (s *Site) Of(bin string) *Site { return &Site{NATS: s.NATS, t: s.t, bin: bin, env: s.env} }

// Program is a running program with its output.
type Program struct {
	*Screen

	process *os.Process
	stop    context.CancelFunc
	ended   chan struct{}
}

// Start starts a program that ends with the test.
func (s *Site) Start(name string, args ...string) *Program {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = Patience
	p := &Program{Screen: NewScreen(), stop: cancel, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	cmd.Env = s.env
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	p.process = cmd.Process
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	s.t.Cleanup(func() {
		p.Stop()
		if s.t.Failed() {
			s.t.Logf("%s %q printed:\n%.5000s", name, args, p)
		}
	})
	return p
}

// Stop interrupts the program and waits for its end.
func (p *Program) Stop() {
	p.stop()
	<-p.ended
}

// Kill ends the program as a crash would.
func (p *Program) Kill() {
	_ = p.process.Kill() // it may have ended
	<-p.ended
}

// PID returns the number of the program's process.
func (p *Program) PID() int { return p.process.Pid }

// Run runs a program to its end, which must have this exit code, and returns what it printed.
func (s *Site) Run(code int, name string, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.bin, name), args...)
	cmd.Env = s.env
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != code {
		s.t.Fatalf("%s %v = %d, want %d\n%s", name, args, cmd.ProcessState.ExitCode(), code, out)
	}
	return string(out)
}

// Follow runs a Node script to its end. When the script prints a line "please X", Follow calls help X, and then answers with
// a line.
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
