package loop_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/internal/testing/golden"
	"github.com/turnlog/turnlog/internal/testing/looptest"
)

var update = golden.Flag()

// TestScripts plays the scripts in testdata: commands, and the exact events that follow.
// Package looptest documents their language.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, *update, file, looptest.Play(t, string(text)))
		})
	}
}

// failures collects errors instead of failing the test.
type failures struct {
	testing.TB

	said []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

// A script whose statements do not run would show nothing and never fail.
func TestStatementsWithoutDashesFail(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{
		"# A comment.\n\nclaim\n----\n": 0,
		"# A comment.\nclaim":           1,
		"claim\n----\n\nopen\n\nopen":   2,
	} {
		f := &failures{TB: t}
		looptest.Play(f, script)
		if len(f.said) != want {
			t.Errorf("%q: %q, want %d errors", script, f.said, want)
		}
	}
}

// A recorded script plays back with the same outcome.
func TestScriptOfARandomSessionPlaysBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		g := wander(t, randomBytes(seed, 150))
		script := g.Script(t, "Random session.")
		if n := strings.Count(script, "\nrecord "); n > 0 {
			t.Errorf("seed %d: %d entries have no command", seed, n)
		}
		if diff := cmp.Diff(script, looptest.Play(t, script)); diff != "" {
			t.Errorf("seed %d: (-script +played)\n%s", seed, diff)
		}
	}
}
