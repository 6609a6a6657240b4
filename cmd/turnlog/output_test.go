package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
)

// answersWith is an agent whose answers are true or false, and whose model gives these.
func answersWith(t *testing.T, replies string) (agent string) {
	t.Helper()
	dir := folderOf(t, map[string]string{
		"judge.yaml":   "model: scripted:judge.script\noutput: {schema: {type: object, required: [ok], properties: {ok: {type: boolean}}}, repairs: 1}\n",
		"judge.script": "replies:\n" + replies,
	})
	return filepath.Join(dir, "judge.yaml")
}

func TestARefusedAnswerIsNotTheOutput(t *testing.T) {
	t.Parallel()
	agent := answersWith(t, `  - text: "I look at it first."
    calls: [{name: fs_count, input: {}}]
  - text: "It is fine, I think."
  - text: '{"ok": true}'
`)
	p := expect(t, cli.CodeOK, "run", "--agent", agent, "--root", t.TempDir(), "Is it fine?")
	if out := p.out.String(); out != "{\"ok\": true}\n" {
		t.Errorf("out = %q, want the answer that fits and nothing else", out)
	}
	for _, want := range []string{"I look at it first.", "It is fine, I think.", "✗ this answer does not fit the agent's schema: "} {
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("no %q in err:\n%s", want, p.err)
		}
	}
	p = expect(t, cli.CodeOK, "run", "--agent", agent, "--root", t.TempDir(), "-o", "json", "Is it fine?")
	if out := p.out.String(); !strings.Contains(out, `"text":"{\"ok\": true}"`) || strings.Contains(out, "I think") {
		t.Errorf("json: %s", out)
	}
}

func TestRepairsThatRunOutAreAFailure(t *testing.T) {
	t.Parallel()
	agent := answersWith(t, "  - text: Yes.\n  - text: Of course.\n")
	p := expect(t, cli.CodeFailed, "run", "--agent", agent, "--root", t.TempDir(), "Is it fine?")
	if p.out.String() != "" || !strings.Contains(p.err.String(), "turnlog: the answer does not fit the agent's schema: it is not JSON") {
		t.Errorf("out = %q, err = %s", p.out, p.err)
	}
	p = expect(t, cli.CodeFailed, "run", "--agent", agent, "--root", t.TempDir(), "-o", "json", "Is it fine?")
	if out := p.out.String(); !strings.Contains(out, `"finish_reason":"error"`) || !strings.Contains(out, `"text":""`) {
		t.Errorf("json: %s", out)
	}
}
