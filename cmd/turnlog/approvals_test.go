package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/tool"
)

// askFirst requires a person's decision about every call.
type askFirst struct{}

func (askFirst) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "greeting", Scope: "anyone", Summary: "wants to greet", Reason: content.PolicyRequiresConfirmation}, nil
}

// guarded starts a deployment whose tool "greet" needs approval for every call.
func guarded(t *testing.T) (url string) {
	t.Helper()
	url, _ = guardedUntil(t)
	return url
}

// guardedUntil is guarded, and returns how to stop its node and worker.
func guardedUntil(t *testing.T) (url string, stop func()) {
	t.Helper()
	cfg := node()
	cfg.Effects = engine.Config{Permissions: askFirst{}}
	url = cellOf(t, actor.Config{})
	return url, hostOn(t, &cli.Cell{Cell: cellAt(t, url), Conn: clitest.Dial(t, url)}, cfg, greet(t))
}

func greet(t *testing.T) tool.Tool {
	t.Helper()
	type name struct {
		Name string `json:"name,omitempty"`
	}
	made, err := tool.Func("greet", "Greets.", func(_ context.Context, in name) (string, error) { return "hello " + in.Name, nil }, reads())
	if err != nil {
		t.Fatal(err)
	}
	return made
}

const greeting = `
replies:
  - calls: [{name: greet, input: {name: Ada}}]
  - text: "{{(index .Results 0).Text}}"
`

func TestRunStopsAtAnApprovalAndPrintsHowToDecideIt(t *testing.T) {
	t.Parallel()
	url := guarded(t)
	p := at(t, url, "run", "-o", "json", "--session", "s", "--model", scripted(t, greeting), "hi")
	place := " s call_1_1 --server " + url + `"`
	want := `greet (call call_1_1) needs approval: wants to greet: see "turnlog approvals show` + place +
		`, and decide with "turnlog approve` + place + ` or "turnlog deny` + place
	if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), want) {
		t.Errorf("code %d, err %s", code, p.err)
	}
	var r turnReport
	if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil || r.FinishReason != "needs_approval" || len(r.Approvals) != 1 {
		t.Fatalf("%v, out = %s", err, p.out)
	}
	a := r.Approvals[0]
	if a.Call != "call_1_1" || a.Tool != "greet" || a.Summary != "wants to greet" || string(a.Input) != `{"name":"Ada"}` || a.Digest == "" || a.Reason == "" || a.ExpiresAt != nil {
		t.Errorf("approval = %+v", a)
	}
	waited := at(t, url, "wait", "s")
	if code := waited.end(t); code != cli.CodeApproval || !strings.Contains(waited.err.String(), want) {
		t.Errorf("wait: code %d, err %s", code, waited.err)
	}
}

func TestAnApprovalIsDecidedFromAnywhere(t *testing.T) {
	t.Parallel()
	url := guarded(t)
	model := scripted(t, greeting)
	for _, s := range []string{"yes", "no", "other"} {
		if code := at(t, url, "run", "--session", s, "--model", model, "hi").end(t); code != cli.CodeApproval {
			t.Fatalf("run exits with %d", code)
		}
	}
	out := succeed(t, url, "approvals", "ls")
	for _, want := range []string{"SESSION  CALL", "no       call_1_1  greet  never    wants to greet", "yes      call_1_1", "other    call_1_1"} {
		if !strings.Contains(out, want) {
			t.Errorf("approvals ls prints\n%s\nwant %q", out, want)
		}
	}
	var all []openApproval
	if err := json.Unmarshal([]byte(succeed(t, url, "approvals", "ls", "yes", "-o", "json")), &all); err != nil || len(all) != 1 || all[0].Session != "yes" || all[0].Call != "call_1_1" {
		t.Errorf("approvals = %+v, %v", all, err)
	}

	if got := succeed(t, url, "approve", "yes", "call_1_1", "--input", `{"name":"Bob"}`); got != "approved greet (call call_1_1)\n" {
		t.Errorf("approve prints %q", got)
	}
	if got := succeed(t, url, "wait", "yes"); got != "hello Bob\n" {
		t.Errorf("wait prints %q", got)
	}
	if got := succeed(t, url, "deny", "no", "call_1_1", "--reason", "not now"); got != "denied greet (call call_1_1)\n" {
		t.Errorf("deny prints %q", got)
	}
	if got := succeed(t, url, "wait", "no"); got != "Permission denied: not now\n" {
		t.Errorf("wait prints %q", got)
	}
	if got := succeed(t, url, "approvals", "ls", "no", "-o", "json"); got != "[]\n" {
		t.Errorf("approvals ls prints %q", got)
	}
	for args, want := range map[string]string{
		"approve no call_1_1":    "greet (call call_1_1) is already decided: denied by turnlog (claimed): not now, 20",
		"deny yes call_1_1":      "greet (call call_1_1) is already decided: approved by turnlog (claimed), 20",
		"approve yes call_9_9":   `session yes has no call call_9_9: "turnlog calls yes" lists`,
		"approve ghost call_1_1": "session ghost: no such session",
		"approvals ls ghost":     "session ghost: no such session",
	} {
		p := at(t, url, strings.Fields(args)...)
		if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), want) {
			t.Errorf("%s: code %d, err %s, want %q", args, code, p.err, want)
		}
	}
	// Arguments that do not fit leave the question open.
	p := at(t, url, "approve", "other", "call_1_1", "--input", `{"name":7}`)
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "session other: ") {
		t.Errorf("bad input: code %d, err %s", code, p.err)
	}
	if got := succeed(t, url, "approvals", "ls", "other"); !strings.Contains(got, "call_1_1") {
		t.Errorf("approvals ls prints %q", got)
	}
}

func TestAnApprovalMayBeForAlways(t *testing.T) {
	t.Parallel()
	url := guarded(t)
	model := scripted(t, `
replies:
  - calls: [{name: greet, input: {name: Ada}}]
  - calls: [{name: greet, input: {name: Bob}}]
  - text: Done.
`)
	if code := at(t, url, "run", "--session", "s", "--model", model, "hi").end(t); code != cli.CodeApproval {
		t.Fatalf("run exits with %d", code)
	}
	succeed(t, url, "approve", "s", "call_1_1", "--always")
	if got := succeed(t, url, "wait", "s"); got != "Done.\n" {
		t.Errorf("wait prints %q", got)
	}
	in, keys := io.Pipe()
	p := prepare(t, in, nil)
	p.app.IsIn = true
	p.start(t, "run", "--server", url, "--model", model, "hi")
	p.err.Await(t, "Run it?")
	_, _ = fmt.Fprintln(keys, "always")
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "Done.\n" {
		t.Errorf("code %d, out %q, err %s", code, p.out, p.err)
	}
}

func TestYesApprovesEverything(t *testing.T) {
	t.Parallel()
	url := guarded(t)
	if got := succeed(t, url, "run", "--yes", "--model", scripted(t, greeting), "hi"); got != "hello Ada\n" {
		t.Errorf("run --yes prints %q", got)
	}
}

func TestApprovalsAreAskedAboutAtATerminal(t *testing.T) {
	t.Parallel()
	url := guarded(t)
	script := `
replies:
  - calls: [{name: greet, input: {name: Ada}}, {name: greet, input: {name: Bob}}]
  - text: "{{range .Results}}{{.Text}};{{end}}"
`
	in, keys := io.Pipe()
	p := prepare(t, in, nil)
	p.app.IsIn = true
	p.start(t, "run", "--server", url, "--model", scripted(t, script), "hi")
	p.err.Await(t, "? greet (call call_1_1)\n    name: \"Ada\"\n  wants to greet\n")
	p.err.Await(t, "  a, always: every call of greet in this session that asks about greeting anyone\n  Run it? [y, i, t, a, n, or n and a reason] ")
	_, _ = fmt.Fprintln(keys, "maybe")
	_, _ = fmt.Fprintln(keys, "y")
	p.err.Await(t, `name: "Bob"`)
	_, _ = fmt.Fprintln(keys, "n we know Bob")
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "hello Ada;Permission denied: we know Bob;\n" {
		t.Errorf("code %d, out %q, err %s", code, p.out, p.err)
	}
	if strings.Count(p.err.String(), "Run it?") != 3 {
		t.Errorf("the number of questions is not 3:\n%s", p.err)
	}
}

func TestAQuestionEndsWithItsApproval(t *testing.T) {
	t.Parallel()
	url := guarded(t)
	model := scripted(t, greeting)
	ask := func(session string) (*program, *io.PipeWriter) {
		in, keys := io.Pipe()
		p := prepare(t, in, nil)
		p.app.IsIn = true
		p.start(t, "run", "--server", url, "--session", session, "--model", model, "hi")
		p.err.Await(t, "Run it?")
		return p, keys
	}
	p, _ := ask("elsewhere")
	succeed(t, url, "approve", "elsewhere", "call_1_1")
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "hello Ada\n" {
		t.Errorf("decided elsewhere: code %d, out %q, err %s", code, p.out, p.err)
	}
	if !strings.Contains(p.err.String(), "n and a reason] \ndecided elsewhere: approved by turnlog (claimed)\n") {
		t.Errorf("decided elsewhere, on the line of the question: %s", p.err)
	}
	p, _ = ask("stopped")
	succeed(t, url, "cancel", "stopped")
	if code := p.end(t); code != cli.CodeCancelled || !strings.Contains(p.err.String(), "n and a reason] \ncancelled elsewhere\n") {
		t.Errorf("cancelled elsewhere: code %d, err %s", code, p.err)
	}
	p, keys := ask("left")
	_ = keys.Close()
	if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), "n and a reason] \n") {
		t.Errorf("Ctrl-D: code %d, err %s", code, p.err)
	}
	p, _ = ask("cancelled")
	p.signals <- os.Interrupt
	if code := p.end(t); code != cli.CodeCancelled || !strings.Contains(p.err.String(), "n and a reason] \ncancelling") {
		t.Errorf("interrupt: code %d, err %s", code, p.err)
	}
}

func TestADecisionWithoutANodeStaysQueued(t *testing.T) {
	t.Parallel()
	url, stop := guardedUntil(t)
	if code := at(t, url, "run", "--session", "s", "--model", scripted(t, greeting), "hi").end(t); code != cli.CodeApproval {
		t.Fatalf("run exits with %d", code)
	}
	stop()
	p := prepare(t, nil, nil)
	p.app.Patience.Answer = 5 * time.Second // for sending, too
	p.start(t, "approve", "s", "call_1_1", "--server", url)
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "it stays queued until a driver-node takes it") {
		t.Errorf("code %d, err %s", code, p.err)
	}
}
