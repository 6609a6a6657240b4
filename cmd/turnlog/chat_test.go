package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
)

func TestChatRunsATurnForEachLine(t *testing.T) {
	t.Parallel()
	p := prepare(t, strings.NewReader("one\n\n  \ntwo"), nil).start(t, "chat", "--model", scripted(t, echo))
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "You said one.\nYou said two.\n" {
		t.Errorf("code %d, out %q, err %q", code, p.out, p.err)
	}
	p = prepare(t, strings.NewReader("one\n/quit\ntwo\n"), nil).start(t, "chat", "--model", scripted(t, echo))
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "You said one.\n" {
		t.Errorf("/quit: code %d, out %q, err %q", code, p.out, p.err)
	}
}

func TestChatGoesOnAfterAFailedTurn(t *testing.T) {
	t.Parallel()
	model := scripted(t, "replies:\n  - {text: fine}\n  - {text: cut, finish_reason: max_tokens}\n")
	p := prepare(t, strings.NewReader("one\ntwo\nthree\n"), nil).start(t, "chat", "--model", model)
	if code := p.end(t); code != cli.CodeFailed || p.out.String() != "fine\ncut\n" {
		t.Errorf("code %d, out %q, err %q", code, p.out, p.err)
	}
	for _, want := range []string{"token limit", "script is exhausted"} {
		if strings.Count(p.err.String(), want) != 1 {
			t.Errorf("err = %q, want %q", p.err, want)
		}
	}
}

func TestChatAtATerminal(t *testing.T) {
	t.Parallel()
	in, keys := io.Pipe()
	p := prepare(t, in, nil)
	p.app.IsIn, p.app.Style.Color = true, true
	model := scripted(t, "replies:\n  - calls: [{name: shell_exec, input: {argv: [sleep, \"60\"]}}]\n")
	p.start(t, "chat", "--model", model, "--session", "talk", "--tools", "shell", "--root", t.TempDir())
	p.err.Await(t, "session talk; /quit or Ctrl-D leaves")
	p.signals <- os.Interrupt
	p.err.Await(t, "nothing to cancel")
	_, _ = fmt.Fprintln(keys, "hi")
	p.err.Await(t, "Run it?")
	_, _ = fmt.Fprintln(keys, "y")
	p.err.Await(t, "→ shell_exec")
	p.signals <- os.Interrupt
	p.err.Await(t, "cancelled: interrupted")
	_ = keys.Close()
	if code := p.end(t); code != cli.CodeOK {
		t.Errorf("code %d, err %s", code, p.err)
	}
}

func TestChatEndsWhereNobodyDecides(t *testing.T) {
	t.Parallel()
	model := scripted(t, "replies:\n  - calls: [{name: shell_exec, input: {argv: [echo, hi]}}]\n  - text: done\n    repeat: true\n")
	args := []string{"chat", "--model", model, "--tools", "shell", "--root", t.TempDir()}
	p := prepare(t, strings.NewReader("one\ntwo\n"), nil).start(t, args...)
	if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), "shell_exec (call call_1_1) needs approval") {
		t.Errorf("code %d, err %s", code, p.err)
	}
	p = prepare(t, strings.NewReader("one\ntwo\n"), nil).start(t, append(args, "--yes")...)
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "done\ndone\n" {
		t.Errorf("--yes: code %d, out %q, err %s", code, p.out, p.err)
	}
}
