package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
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
	store, home := t.TempDir(), env{"HOME": t.TempDir()}
	asUser := func(url string, args ...string) string {
		t.Helper()
		p := prepare(t, nil, home).start(t, append(args, "--server", url)...)
		if code := p.end(t); code != cli.CodeOK {
			t.Fatalf("turnlog %q exits with %d: %s", args, code, p.err)
		}
		return p.out.String()
	}
	args := []string{"dev", "--listen", "127.0.0.1:0", "--store", store, "--root", t.TempDir(), "--log-level", "warn"}
	for turn := range 2 {
		p := prepare(t, nil, home).start(t, args...)
		url := urlOf(t, p, "sessions are kept")

		second := expect(t, cli.CodeFailed, "dev", "--listen", "127.0.0.1:0", "--store", store, "--log-level", "error")
		if !strings.Contains(second.err.String(), "store directory is in use") {
			t.Errorf("second dev says %s", second.err)
		}
		if turn == 0 {
			asUser(url, "run", "--session", "kept", "--model", scripted(t, echo), "hi")
		}
		if got := asUser(url, "sessions", "show", "kept"); !strings.Contains(got, "turns        1\n") {
			t.Errorf("sessions show prints %s", got)
		}
		p.signals <- os.Interrupt
		if code := p.end(t); code != cli.CodeOK || p.err.String() != "" {
			t.Errorf("dev ends with %d: %s", code, p.err)
		}
	}
}

// On a machine with several users, each has a home directory.
func TestServersAdmitOnlyTheUserWhoStartedThem(t *testing.T) {
	t.Parallel()
	for _, start := range [][]string{{"server"}, {"dev", "--store", t.TempDir(), "--root", t.TempDir()}} {
		home := env{"HOME": t.TempDir()}
		p := prepare(t, nil, home).start(t, append(start, "--listen", "127.0.0.1:0", "--log-level", "warn")...)
		url := urlOf(t, p, "\n")
		_, port, _ := strings.Cut(strings.TrimPrefix(url, "nats://"), ":")
		file := filepath.Join(home["HOME"], ".config", "nats", "context", "turnlog-"+port+".json")
		info, err := os.Stat(file)
		if err != nil || info.Mode() != 0o600 {
			t.Fatalf("%v: %v, %v", start, info, err)
		}
		for _, address := range [][]string{{"--server", url}, {"--server", "localhost:" + port}, {"--context", "turnlog-" + port}} {
			p := prepare(t, nil, home).start(t, append(address, "sessions", "ls")...)
			if code := p.end(t); code != cli.CodeOK {
				t.Errorf("%v, %v: code %d, err %s", start, address, code, p.err)
			}
		}
		stranger := at(t, url, "sessions", "ls")
		if code := stranger.end(t); code != cli.CodeFailed || !strings.Contains(stranger.err.String(), "admits only the user who started it") {
			t.Errorf("%v, a stranger: code %d, err %s", start, code, stranger.err)
		}
		p.signals <- os.Interrupt
		if code := p.end(t); code != cli.CodeOK {
			t.Errorf("%v ends with %d: %s", start, code, p.err)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%v: the context is still there: %v", start, err)
		}
	}
	homeless := prepare(t, nil, env{"HOME": ""}).start(t, "server", "--listen", "127.0.0.1:0", "--log-level", "error")
	if code := homeless.end(t); code != cli.CodeFailed || !strings.Contains(homeless.err.String(), "HOME is not set: give --open") {
		t.Errorf("without a home: code %d, err %s", code, homeless.err)
	}
	open := prepare(t, nil, env{"HOME": ""}).start(t, "server", "--open", "--listen", "127.0.0.1:0", "--log-level", "error")
	succeed(t, urlOf(t, open, "\n"), "sessions", "ls")
	open.signals <- os.Interrupt
	open.end(t)
}

func TestServerHasADeploymentsStreams(t *testing.T) {
	t.Parallel()
	p := prepare(t, nil, nil).start(t, "server", "--listen", "127.0.0.1:0", "--user", "ops", "--password", "secret", "--log-level", "warn")
	url := urlOf(t, p, "\n")
	if got := succeed(t, url, "sessions", "ls", "--user", "ops", "--password", "secret"); got != "" {
		t.Errorf("sessions ls prints %q", got)
	}
	stranger := at(t, url, "sessions", "ls")
	if code := stranger.end(t); code != cli.CodeFailed || !strings.Contains(stranger.err.String(), "it requires credentials") {
		t.Errorf("stranger: code %d, err %s", code, stranger.err)
	}
	p.signals <- syscall.SIGTERM
	if code := p.end(t); code != cli.CodeOK || !strings.Contains(p.err.String(), "authentication error") {
		t.Errorf("server ends with %d: %s", code, p.err)
	}
}

func TestServerCanBeMonitored(t *testing.T) {
	t.Parallel()
	p := prepare(t, nil, nil).start(t, "server", "--open", "--listen", "127.0.0.1:0", "--monitor", "127.0.0.1:0")
	succeed(t, urlOf(t, p, "\n"), "sessions", "ls")
	monitor := regexp.MustCompile(`http://[0-9.:]+`).FindString(p.err.String())
	if status, page := clitest.Get(t, monitor+"/jsz?acc=$G&streams=true"); status != http.StatusOK || !strings.Contains(page, "TURNLOG_JOURNAL") {
		t.Errorf("%s: %d %s; log: %s", monitor, status, page, p.err)
	}
	p.signals <- syscall.SIGTERM
	p.end(t)
}

func TestServerWithoutStreams(t *testing.T) {
	t.Parallel()
	p := prepare(t, nil, nil).start(t, "server", "--open", "--listen", "127.0.0.1:0", "--no-provision", "--log-level", "warn")
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
		if usage := cmd.UsageString(); cmd.Flag("server") != nil && cmd.Name() != "torture" {
			_, connection, _ := strings.Cut(usage, "\nConnection Flags:\n")
			if !strings.Contains(connection, "--server URL ") || !strings.Contains(connection, "; default: ") || strings.Contains(connection, "--output") {
				t.Errorf("%s does not list its connection flags in a group, or not its default server:\n%s", cmd.CommandPath(), usage)
			}
		}
		if first, tools, ok := strings.Cut(cmd.UsageString(), "\nTool Flags:\n"); ok != (cmd.Flag("tool-manifest") != nil) || strings.Contains(first, " --root directory ") ||
			ok && (!strings.Contains(tools, " --root directory ") || strings.Contains(tools, "--output ")) {
			t.Errorf("%s does not list the flags of its tools in a group:\n%s", cmd.CommandPath(), cmd.UsageString())
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	root := newRootCommand(prepare(t, nil, nil).app)
	root.SetUsageFunc(cli.Usages)
	visit(root)
}
