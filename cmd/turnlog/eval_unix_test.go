//go:build unix

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnlog/turnlog/agent/eval"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

// TestAnEvaluationThatIsKilledGoesOn kills turnlog eval in the middle of a call. The next run reuses the finished trials,
// does not repeat the call, and runs the rest: each tool call runs once.
func TestAnEvaluationThatIsKilledGoesOn(t *testing.T) {
	t.Parallel()
	bin, err := clitest.Build(t.Context(), "./cmd/turnlog")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"suite.yaml": `
checks: [contains: done]
cases:
- {name: before, prompt: Go, model: 'scripted:before.yaml', repeats: 2}
- {name: during, prompt: Go, model: 'scripted:during.yaml'}
- {name: after, prompt: Go, model: 'scripted:after.yaml'}
`,
		"before.yaml": `replies: [{calls: [{name: shell_exec, input: {argv: [sh, -c, echo before >> log]}}]}, {text: Done.}]`,
		"during.yaml": `replies: [{calls: [{name: shell_exec, input: {argv: [sh, -c, 'echo during >> log; echo > pipe; sleep 300']}}]}, {text: Done.}]`,
		"after.yaml":  `replies: [{calls: [{name: shell_exec, input: {argv: [sh, -c, echo after >> log]}}]}, {text: Done.}]`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "turnlog"), "eval", "suite.yaml", "--store", "store",
			"--parallel", "1", "--tools", "shell", "--sandbox", "none", "--root", ".", "--yes", "-o", "json")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "NATS_URL=", "NATS_CONTEXT=")
		return cmd
	}
	first := run()
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = first.Wait() // it is killed
	}()
	called := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(pipe) // waits for the call
		called <- err
	}()
	select {
	case err := <-called:
		if err != nil {
			t.Fatal(err)
		}
	case <-ended:
		t.Fatal("it ended before the call")
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended

	second := run()
	var problems strings.Builder
	second.Stderr = &problems
	out, err := second.Output()
	var r eval.Report
	if json.Unmarshal(out, &r) != nil || err != nil {
		t.Fatalf("%v\n%s%s", err, out, problems.String())
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil || string(log) != "before\nbefore\nduring\nafter\n" {
		t.Errorf("the calls were %q, %v", log, err)
	}
	if !r.Cases[0].Results[0].Kept || !r.Cases[0].Results[1].Kept || r.Cases[2].Results[0].Kept || r.Failed() {
		t.Errorf("%s", out)
	}
}
