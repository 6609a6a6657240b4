package loop_test

import (
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
