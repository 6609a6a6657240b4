package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

func TestAVerifierHasTheSameVerdictOnAWorker(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "here"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x, err := engine.NewVerifierTool(root, extension.CommandVerifier{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		argv   []string
		pass   bool
		exit   int
		output string
	}{
		"passes":  {argv: []string{"ls"}, pass: true, output: "here\n"},
		"fails":   {argv: []string{"sh", "-c", "echo no; exit 7"}, exit: 7, output: "no\n[exit status 7]"},
		"missing": {argv: []string{"no-such-command-here"}, exit: -1, output: `[verifier no-such-command-here: exec: "no-such-command-here": executable file not found in $PATH]`},
		"empty":   {exit: -1, output: "Invalid arguments: argv is empty; it must hold a command"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := engine.VerifierCall(&loop.Turn{N: 3, ID: "turn-3"}, loop.Verify{Attempt: 2, Command: append([]string{}, tc.argv...)}, "q")
			if c.Place != "t3-v2" || !content.IsToken(string(c.Place)) || c.Routing.Queue != "q" {
				t.Fatalf("call = %+v", c)
			}
			r := tool.Invoke(t.Context(), x, tool.Call{ID: c.ID, Name: c.Name, Input: c.EffectiveInput()})
			f := engine.Verdict(2, r)
			if f.Attempt != 2 || f.Success != tc.pass || f.Exit != tc.exit || f.Output != tc.output {
				t.Errorf("verdict = %+v", f)
			}
		})
	}
}

func TestAStoppedVerifierHasNoVerdict(t *testing.T) {
	t.Parallel()
	x, err := engine.NewVerifierTool(t.TempDir(), extension.CommandVerifier{})
	if err != nil {
		t.Fatal(err)
	}
	c := engine.VerifierCall(&loop.Turn{N: 1}, loop.Verify{Attempt: 1, Command: []string{"sleep", "100"}}, "q")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(engine.ErrStop)
	r := tool.Invoke(ctx, x, tool.Call{ID: c.ID, Name: c.Name, Input: c.EffectiveInput()})
	if f := engine.Verdict(1, r); r.Result.Status != content.StatusCancelled || f.Success || f.Exit != -1 {
		t.Errorf("status %s, verdict %+v", r.Result.Status, f)
	}
	if _, err := engine.NewVerifierTool("/no/such/dir", extension.CommandVerifier{}); err == nil || !strings.Contains(err.Error(), "no such directory") {
		t.Errorf("err = %v", err)
	}
}
