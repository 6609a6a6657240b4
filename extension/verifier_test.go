package extension_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/extension"
)

func TestCommandVerifies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "marker"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		argv   []string
		pass   bool
		output string
		exit   int
	}{
		"passes":           {argv: []string{"ls"}, pass: true, output: "marker\n"},
		"fails":            {argv: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}, output: "out\nerr\n", exit: 3},
		"keeps the end":    {argv: []string{"sh", "-c", "yes | head -n 50000; echo the end"}, pass: true, output: strings.Repeat("y\n", 7990) + "the end\n"},
		"killed by itself": {argv: []string{"sh", "-c", "kill -9 $$"}, exit: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pass, output, err := extension.Command(tc.argv...).Verify(t.Context(), dir)
			if pass != tc.pass || !strings.HasSuffix(output, tc.output) || len(output) > 33_000 {
				t.Errorf("Verify = %t, %d bytes: %.80q, %v", pass, len(output), output, err)
			}
			if exit, ok := errors.AsType[*extension.ExitError](err); ok != (tc.exit != 0) || ok && exit.Code != tc.exit {
				t.Errorf("err = %v, want exit %d", err, tc.exit)
			}
		})
	}
}

func TestCommandThatCannotRunReturnsAnError(t *testing.T) {
	t.Parallel()
	for _, argv := range [][]string{nil, {"no-such-command-here"}, {"./nor-here"}} {
		if pass, _, err := extension.Command(argv...).Verify(t.Context(), t.TempDir()); pass || err == nil {
			t.Errorf("%q: Verify = %t, %v", argv, pass, err)
		}
	}
}

func TestArgvReturnsTheCommand(t *testing.T) {
	t.Parallel()
	if got := extension.Argv(extension.Command("go", "test")); !slices.Equal(got, []string{"go", "test"}) {
		t.Errorf("Argv = %q", got)
	}
	if got := extension.Argv(yes{}); got != nil {
		t.Errorf("Argv of a function = %q", got)
	}
}

type yes struct{}

func (yes) Verify(context.Context, string) (bool, string, error) { return true, "", nil }
