package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli/toolset"
)

func TestErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	const hint = ` (see "tool-worker --help")`
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sets := strings.Join(toolset.Names(), ", ")
	for line, c := range map[string]struct {
		code int
		want string
	}{
		"--tools fs,nope":                     {2, `--tools: there is no set "nope": known are ` + sets + hint},
		"--tools=":                            {2, `--tools: name at least one of ` + sets + ", or none" + hint},
		"--root /no/such":                     {2, `--root /no/such: no such directory: create it or name another one` + hint},
		"--queue a.b":                         {2, `--queue "a.b": use 1 to 128 letters, digits, '-' or '_'` + hint},
		"--name a.b":                          {2, `--name "a.b": use 1 to 128 letters, digits, '-' or '_'` + hint},
		"--slots -1":                          {2, `--slots -1: use 1 or more, or 0 for four for each CPU` + hint},
		"--drain 0s":                          {2, `--timeout 2m0s and --drain 0s: use positive times` + hint},
		"--drain soon":                        {2, `--drain "soon": use a time with its unit, such as 500ms, 30s or 2h30m` + hint},
		"--allow-command ls":                  {2, `--allow-command is about the tools of the set shell, which --tools does not name` + hint},
		"--allow-root no-such-dir":            {2, `--allow-root no-such-dir: there is no directory ` + here + `/no-such-dir: create it or name another one` + hint},
		"stray":                               {2, `unexpected argument "stray"` + hint},
		"--provision=false --namespace other": {1, `cell is not provisioned`},
		"--http 256.0.0.1:1":                  {1, `serve http at 256.0.0.1:1`},
		"--server 127.0.0.1:1 --connect-timeout 10ms": {1, `127.0.0.1:1`},
		"--namespace a.b":        {2, `--namespace "a.b": use letters, digits, '-' or '_'` + hint},
		"--server http://x":      {2, `server "http://x" is not an address: write it like nats://127.0.0.1:4222` + hint},
		"--creds /no/such/creds": {2, `open /no/such/creds: no such file or directory` + hint},
	} {
		args := strings.Fields(line)
		if !strings.Contains(line, "--server") {
			args = append(args, "--server", d.url)
		}
		code, printed := execute(t.Context(), append(args, "--log-level", "error")...)
		if code != c.code || !strings.HasPrefix(printed, "tool-worker: ") || strings.Count(printed, "\n") != 1 || !strings.Contains(printed, c.want) {
			t.Errorf("%q = %d %q, want %d %q", line, code, printed, c.code, c.want)
		}
	}
}

func TestHelpListsTheSetsOfTools(t *testing.T) {
	t.Parallel()
	code, printed := execute(t.Context(), "--help")
	if code != 0 || !strings.Contains(printed, "Examples:\n  tool-worker") {
		t.Errorf("--help = %d\n%s", code, printed)
	}
	for _, s := range toolset.Sets() {
		if !strings.Contains(printed, fmt.Sprintf("  %-6s %s", s.Name, s.About)) {
			t.Errorf("set %s is not in\n%s", s.Name, printed)
		}
	}
}

func TestACancelWithoutASignalIsAnError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	d := deploy(t)
	cancel(fmt.Errorf("test: %w", context.Canceled))
	if code, printed := execute(ctx, "--server", d.url, "--log-level", "error", "--root", t.TempDir()); code != 1 || strings.Count(printed, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, printed)
	}
}
