package main

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/internal/cli"
)

// urlOf waits until a program says where it listens.
func urlOf(t *testing.T, p *program, after string) string {
	t.Helper()
	p.out.Await(t, after)
	url := regexp.MustCompile(`nats://[0-9.]+:[0-9]+`).FindString(p.out.String())
	if url == "" {
		t.Fatalf("no URL in %s", p.out)
	}
	return url
}

func TestDevKeepsSessions(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	args := []string{"dev", "--listen", "127.0.0.1:0", "--store", store, "--root", t.TempDir(), "--log-level", "warn"}
	for turn := range 2 {
		p := prepare(t, nil, nil).start(t, args...)
		url := urlOf(t, p, "sessions are kept")

		second := expect(t, cli.CodeFailed, "dev", "--listen", "127.0.0.1:0", "--store", store, "--log-level", "error")
		if !strings.Contains(second.err.String(), "store directory is in use") {
			t.Errorf("second dev says %s", second.err)
		}
		if turn == 0 {
			succeed(t, url, "run", "--session", "kept", "--model", scripted(t, echo), "hi")
		}
		if got := succeed(t, url, "sessions", "show", "kept"); !strings.Contains(got, "turns        1\n") {
			t.Errorf("sessions show prints %s", got)
		}
		p.signals <- os.Interrupt
		if code := p.end(t); code != cli.CodeOK || p.err.String() != "" {
			t.Errorf("dev ends with %d: %s", code, p.err)
		}
	}
}

func TestServerHasADeploymentsStreams(t *testing.T) {
	t.Parallel()
	p := prepare(t, nil, nil).start(t, "server", "--listen", "127.0.0.1:0", "--user", "ops", "--password", "secret", "--log-level", "warn")
	url := urlOf(t, p, "\n")
	if got := succeed(t, url, "sessions", "ls", "--user", "ops", "--password", "secret"); got != "" {
		t.Errorf("sessions ls prints %q", got)
	}
	stranger := at(t, url, "sessions", "ls")
	if code := stranger.end(t); code != cli.CodeFailed || !strings.Contains(stranger.err.String(), "it wants credentials") {
		t.Errorf("stranger: code %d, err %s", code, stranger.err)
	}
	p.signals <- syscall.SIGTERM
	if code := p.end(t); code != cli.CodeOK || !strings.Contains(p.err.String(), "authentication error") {
		t.Errorf("server ends with %d: %s", code, p.err)
	}
}

func TestServerWithoutStreams(t *testing.T) {
	t.Parallel()
	p := prepare(t, nil, nil).start(t, "server", "--listen", "127.0.0.1:0", "--no-provision", "--log-level", "warn")
	missing := at(t, urlOf(t, p, "\n"), "sessions", "ls")
	if code := missing.end(t); code != cli.CodeFailed || !strings.Contains(missing.err.String(), "not provisioned") {
		t.Errorf("code %d, err %s", code, missing.err)
	}
	p.signals <- os.Interrupt
	if code := p.end(t); code != cli.CodeOK {
		t.Errorf("server ends with %d: %s", code, p.err)
	}
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	t.Parallel()
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			return
		}
		if cmd.Short == "" || !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s: short %q, example %q", cmd.CommandPath(), cmd.Short, cmd.Example)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(prepare(t, nil, nil).app))
}
