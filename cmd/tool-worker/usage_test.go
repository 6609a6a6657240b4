package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli/toolset"
)

func TestErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	const hint = ` (see "tool-worker --help")`
	sets := strings.Join(toolset.Names(), ", ")
	for line, c := range map[string]struct {
		code int
		want string
	}{
		"--tools fs,nope":                     {2, `--tools: unknown set of tools "nope": use ` + sets + hint},
		"--queue a.b":                         {2, `--queue "a.b": use 1 to 128 letters, digits, '-' or '_'` + hint},
		"--name a.b":                          {2, `--name "a.b": use 1 to 128 letters, digits, '-' or '_'` + hint},
		"--slots -1":                          {2, `--slots -1: use 1 or more, or 0 for four for each CPU` + hint},
		"--drain 0s":                          {2, `--timeout 2m0s and --drain 0s: use positive times` + hint},
		"--provision=false --namespace other": {1, `cell is not provisioned`},
		"--http 256.0.0.1:1":                  {1, `serve http at 256.0.0.1:1`},
		"--server 127.0.0.1:1 --connect-timeout 10ms": {1, `127.0.0.1:1`},
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
