package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/tooltest"
)

func TestWhatItCannotDoIsOneLine(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	const hint = ` (see "tool-worker --help")`
	for line, c := range map[string]struct {
		code int
		want string
	}{
		"--tools fs,nope":                     {2, `--tools: there is no set "nope": known are fs, shell` + hint},
		"--tools=":                            {2, `--tools: name at least one of fs, shell` + hint},
		"--root /no/such":                     {2, `--tools fs: root /no/such: no such directory: create it or name another one` + hint},
		"--queue a.b":                         {2, `--queue "a.b": use 1 to 128 letters, digits, '-' or '_'` + hint},
		"--name a.b":                          {2, `--name "a.b": use 1 to 128 letters, digits, '-' or '_'` + hint},
		"--slots -1":                          {2, `--slots -1: use 1 or more, or 0 for four for each CPU` + hint},
		"--drain 0s":                          {2, `--timeout 2m0s and --drain 0s: use positive times` + hint},
		"--drain soon":                        {2, `invalid argument "soon" for "--drain" flag: time: invalid duration "soon"` + hint},
		"stray":                               {2, `unexpected argument "stray"` + hint},
		"--provision=false --namespace other": {1, `cell is not provisioned`},
		"--http 256.0.0.1:1":                  {1, `serve http at 256.0.0.1:1`},
		"--server 127.0.0.1:1":                {1, `127.0.0.1:1`},
		"--namespace a.b":                     {1, `namespace "a.b"`},
		"--creds /no/such/creds":              {1, `/no/such/creds`},
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

func TestHelpTellsTheSetsOfTools(t *testing.T) {
	t.Parallel()
	code, printed := execute(t.Context(), "--help")
	if code != 0 || !strings.Contains(printed, "Examples:\n  tool-worker") {
		t.Errorf("--help = %d\n%s", code, printed)
	}
	for _, s := range sets() {
		if !strings.Contains(printed, fmt.Sprintf("  %-6s %s", s.name, s.about)) {
			t.Errorf("set %s is not in\n%s", s.name, printed)
		}
	}
}

func TestSetsDoNotMeet(t *testing.T) {
	t.Parallel()
	sources, err := openSets(setNames(), toolOptions{root: t.TempDir(), allowWrite: true})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, s := range sources {
		tools, err := s.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		total += len(tools)
	}
	c, err := tool.Sample(t.Context(), sources, tool.FirstWins)
	if err != nil || len(c.Offers) != total || total < 5 {
		t.Errorf("%d tools under %d names, %v", total, len(c.Offers), err)
	}
}

func TestEveryToolHoldsTheContract(t *testing.T) {
	t.Parallel()
	for _, s := range sets() {
		tools, err := s.open(toolOptions{root: t.TempDir(), allowWrite: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tools {
			t.Run(x.Spec().Name, func(t *testing.T) { tooltest.Run(t, x) })
		}
	}
}

func TestEndBeforeItBeganIsAnError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	d := deploy(t)
	cancel(fmt.Errorf("test: %w", context.Canceled))
	if code, printed := execute(ctx, "--server", d.url, "--log-level", "error", "--root", t.TempDir()); code != 1 || strings.Count(printed, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, printed)
	}
}
