package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
)

// contexts returns the files of the contexts in a home directory, by name.
func contexts(t *testing.T, home string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(home, ".config", "nats", "context", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".json")] = string(raw)
	}
	return out
}

// The server has the same users after a restart, whose passwords are in their contexts.
func TestAServerWithRolesKeepsItsUsers(t *testing.T) {
	t.Parallel()
	home, store := env{"HOME": t.TempDir()}, t.TempDir()
	serve := func(listen string, users ...string) (*program, string) {
		t.Helper()
		p := prepare(t, nil, home).start(t, append([]string{"server", "--roles", "--listen", listen, "--store", store, "--log-level", "error"}, users...)...)
		return p, urlOf(t, p, "Ctrl-C ends it")
	}
	stop := func(p *program) {
		t.Helper()
		p.signals <- os.Interrupt
		if code := p.end(t); code != cli.CodeOK {
			t.Errorf("server ends with %d: %s", code, p.err)
		}
	}
	as := func(want int, args ...string) *program {
		t.Helper()
		p := prepare(t, nil, home).start(t, args...)
		if code := p.end(t); code != want {
			t.Errorf("turnlog %q exits with %d: %s", args, code, p.err)
		}
		return p
	}
	first, url := serve("127.0.0.1:0")
	if got := contexts(t, home["HOME"]); len(got) != 11 {
		t.Errorf("contexts: %v", got)
	}
	stop(first)
	if got := contexts(t, home["HOME"]); len(got) != 0 {
		t.Errorf("contexts that no start can use again: %v", got)
	}

	address := strings.TrimPrefix(url, "nats://")
	prefix := regexp.MustCompile(`.*:`).ReplaceAllString(address, "turnlog-")
	second, _ := serve(address)
	before := contexts(t, home["HOME"])
	for name, args := range map[string][]string{
		"client": {"sessions", "ls"}, "approver": {"approvals", "ls"}, "scheduler": {"schedule", "ls"},
		"keeper": {"gc", "--older-than", "1d", "--delete"}, "provisioner": {"provision"},
	} {
		if p := as(cli.CodeOK, append(args, "--context", prefix+"-"+name)...); strings.Contains(p.err.String(), "ermission") {
			t.Errorf("%s: %s", name, p.err)
		}
	}
	if p := as(cli.CodeFailed, "gc", "--older-than", "1d", "--delete", "--context", prefix+"-client"); !strings.Contains(p.err.String(), "turnlog permissions keeper") {
		t.Errorf("a client collects: %s", p.err)
	}
	if p := as(cli.CodeFailed, "sessions", "ls", "--server", url); !strings.Contains(p.err.String(), "its users with roles have a --context each") {
		t.Errorf("a stranger: %s", p.err)
	}
	stop(second)

	third, _ := serve(address, "driver", "client", "approver")
	for name, want := range before {
		if got := contexts(t, home["HOME"])[name]; got != want {
			t.Errorf("%s changed from %s to %s", name, want, got)
		}
	}
	as(cli.CodeOK, "sessions", "ls", "--context", prefix+"-client")
	as(cli.CodeFailed, "schedule", "ls", "--context", prefix+"-scheduler") // not a user this time
	stop(third)

	mine := filepath.Join(home["HOME"], ".config", "nats", "context", prefix+"-client.json")
	if err := os.WriteFile(mine, []byte(`{"url":"nats://example.com","user":"ann"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := as(cli.CodeFailed, "server", "--roles", "--listen", address); !strings.Contains(p.err.String(), mine) {
		t.Errorf("over a file of somebody: %s", p.err)
	}
}
