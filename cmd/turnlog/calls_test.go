package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/tool"
)

// slow starts a deployment whose tool "wait" ends when the channel is closed or the call is
// canceled.
func slow(t *testing.T) (url string, release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	wait, err := tool.Func("wait", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-release:
			return "released", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, reads())
	if err != nil {
		t.Fatal(err)
	}
	return cellOf(t, node(), wait), release
}

// reads declares that a tool only reads, so that no session asks about it.
func reads() tool.Option {
	return tool.WithSpec(func(s *tool.Spec) { s.Effects = content.ReadOnly })
}

const waiting = `
replies:
  - calls: [{name: wait, input: {}}]
  - text: "1: {{(index .Results 0).Text}}"
  - text: "2: {{.Prompt}}"
    repeat: true
`

// callsOf returns the output of "turnlog calls -o json".
func callsOf(t *testing.T, url, session string) []openCall {
	t.Helper()
	var all []openCall
	if err := json.Unmarshal([]byte(succeed(t, url, "calls", session, "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestACallIsCancelledAndTheTurnGoesOn(t *testing.T) {
	t.Parallel()
	url, _ := slow(t)
	p := at(t, url, "run", "--session", "s", "--model", scripted(t, waiting), "hi")
	p.err.Await(t, "→ wait")
	all := callsOf(t, url, "s")
	if len(all) != 1 || all[0].Call != "call_1_1" || all[0].Tool != "wait" || all[0].State != "running" || all[0].Route != "foreground" || all[0].Attempts != 1 {
		t.Errorf("calls = %+v", all)
	}
	if out := succeed(t, url, "calls", "s"); !strings.HasPrefix(out, "CALL      TOOL  STATE    ROUTE       ATTEMPTS  DEADLINE\ncall_1_1  wait  running  foreground  1         none\n") {
		t.Errorf("calls prints %q", out)
	}
	succeed(t, url, "cancel", "s", "--call", "call_1_1", "--reason", "too slow")
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "1: Cancelled before it reported a result\n" {
		t.Errorf("code %d, out %q, err %s", code, p.out, p.err)
	}
	for args, want := range map[string]string{
		"cancel s --call call_1_1": "call call_1_1 is ", // cancelled, and over once its worker has reported
		"cancel s --call nothing":  "no call nothing",
		"detach s call_1_1":        "call call_1_1 is over",
		"cancel s":                 "no turn is open",
	} {
		p := at(t, url, strings.Fields(args)...)
		if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "session s: "+want) {
			t.Errorf("%s: code %d, err %s", args, code, p.err)
		}
	}
	if out := succeed(t, url, "calls", "s") + succeed(t, url, "calls", "s", "-o", "json"); out != "[]\n" {
		t.Errorf("calls prints %q", out)
	}
}

func TestACallIsDetachedAndItsOutcomeComesLater(t *testing.T) {
	t.Parallel()
	url, release := slow(t)
	p := at(t, url, "run", "--session", "s", "--model", scripted(t, waiting), "hi")
	p.err.Await(t, "→ wait")
	lines := at(t, url, "wait", "-o", "json", "s")
	succeed(t, url, "detach", "s", "call_1_1")
	if code := p.end(t); code != cli.CodeOK || !strings.Contains(p.out.String(), "now running in the background") {
		t.Errorf("code %d, out %q, err %s", code, p.out, p.err)
	}
	var r turnReport
	lines.end(t)
	if err := json.Unmarshal([]byte(lines.out.String()), &r); err != nil || r.ToolCalls[0].Route != "background" {
		t.Errorf("report = %+v, %v", r, err)
	}
	if all := callsOf(t, url, "s"); len(all) != 1 || all[0].State != "background" || all[0].Route != "background" {
		t.Errorf("calls = %+v", all)
	}
	q := at(t, url, "detach", "s", "call_1_1")
	if code := q.end(t); code != cli.CodeFailed || !strings.Contains(q.err.String(), "in the background already") {
		t.Errorf("code %d, err %s", code, q.err)
	}
	close(release)
	awaitEvents(t, url, "s", events.KindTurnStarted, 2)
	if all := callsOf(t, url, "s"); len(all) != 0 {
		t.Errorf("calls after the outcome = %+v", all)
	}
	if out := succeed(t, url, "wait", "s"); !strings.HasPrefix(out, "2: ") {
		t.Errorf("wait prints %q", out)
	}
}

func TestWaitPrintsWhatRunPrints(t *testing.T) {
	t.Parallel()
	url, release := slow(t)
	p := at(t, url, "run", "--session", "s", "--model", scripted(t, waiting), "hi")
	p.err.Await(t, "→ wait")
	watch := at(t, url, "wait", "s")
	watch.err.Await(t, "→ wait")
	lines := at(t, url, "wait", "s", "-o", "jsonl")
	lines.out.Await(t, `"tool_dispatched"`)

	impatient := at(t, url, "wait", "s", "--timeout", "10ms")
	if code := impatient.end(t); code != cli.CodeCancelled || !strings.Contains(impatient.err.String(), "turn turn-1 continues in session s") {
		t.Errorf("--timeout: code %d, err %s", code, impatient.err)
	}
	gone := at(t, url, "wait", "s")
	gone.err.Await(t, "→ wait")
	gone.signals <- os.Interrupt
	if code := gone.end(t); code != cli.CodeCancelled {
		t.Errorf("interrupt: code %d, err %s", code, gone.err)
	}
	close(release)
	for _, p := range []*program{p, watch, lines} {
		if code := p.end(t); code != cli.CodeOK {
			t.Errorf("code %d, err %s", code, p.err)
		}
	}
	if p.out.String() != "1: released\n" || watch.out.String() != p.out.String() {
		t.Errorf("run prints %q, wait %q", p.out, watch.out)
	}
	text := lines.out.String()
	if strings.Contains(text, "run_started") && !strings.Contains(text, "turn_started") || !strings.Contains(text, `{"result":{"session":"s","turn":"turn-1","finish_reason":"completed"`) {
		t.Errorf("wait -o jsonl prints %s", text)
	}
	if got := succeed(t, url, "wait", "s"); got != "1: released\n" {
		t.Errorf("wait for a turn that is over prints %q", got)
	}
	succeed(t, url, "send", "s", "more")
	if got := succeed(t, url, "wait", "s"); got != "2: more\n" {
		t.Errorf("wait after send prints %q", got)
	}
	ghost := at(t, url, "wait", "ghost")
	if code := ghost.end(t); code != cli.CodeFailed || !strings.Contains(ghost.err.String(), "session ghost: no such session") {
		t.Errorf("code %d, err %s", code, ghost.err)
	}
}

func TestAReportOfAJoinedTurnHasItsEarlierCalls(t *testing.T) {
	t.Parallel()
	url, release := slow(t)
	p := at(t, url, "run", "--session", "s", "--model", scripted(t, "replies:\n  - calls: [{name: wait, input: {}}]\n  - text: done\n"), "hi")
	p.err.Await(t, "→ wait")
	joined := at(t, url, "send", "s", "--wait", "-o", "json", "more")
	awaitEvents(t, url, "s", events.KindInputQueued, 2)
	if got := succeed(t, url, "sessions", "show", "s"); !strings.Contains(got, "queued ") {
		t.Errorf("sessions show prints %q", got)
	}
	close(release)
	p.end(t)
	if code := joined.end(t); code != cli.CodeOK {
		t.Fatalf("code %d, err %s", code, joined.err)
	}
	var r turnReport
	if err := json.Unmarshal([]byte(joined.out.String()), &r); err != nil || r.Turn != "turn-1" || len(r.ToolCalls) != 1 || r.ToolCalls[0].Status != "ok" {
		t.Errorf("report %+v, %v", r, err)
	}
}

func TestLimitsEndATurn(t *testing.T) {
	t.Parallel()
	url, release := slow(t)
	close(release)
	script := "replies:\n  - calls: [{name: wait, input: {}}]\n    usage: {input: 10, output: 5}\n    repeat: true\n"
	for limit, want := range map[string]string{
		"rounds=2":                "max turns reached (2)",
		"requests=3,tokens=1000":  "request limit exceeded: 4 > 3",
		"tokens=20":               "total token limit exceeded: 30 > 20",
		"input_tokens=15":         "input token limit exceeded: 20 > 15",
		"output_tokens=5":         "output token limit exceeded: 10 > 5",
		"tool_calls=1,requests=9": "tool call limit exceeded: 2 > 1",
	} {
		p := at(t, url, "run", "-o", "json", "--limit", limit, "--model", scripted(t, script), "hi")
		if code := p.end(t); code != cli.CodeLimit || !strings.Contains(p.err.String(), want) {
			t.Errorf("%s: code %d, err %s, want %q", limit, code, p.err, want)
		}
		var r turnReport
		if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil || r.Limit == nil || r.Limit.Limit == 0 || r.Limit.Kind == "" || r.Limit.Used == 0 {
			t.Errorf("%s: report %s, %v", limit, p.out, err)
		}
	}
	// A turn has its own limits and the session's: the smaller ones apply.
	model := scripted(t, script)
	p := at(t, url, "run", "--session", "s", "--limit", "tool_calls=3,requests=9", "--model", model, "hi")
	p.end(t)
	for _, args := range [][]string{{"run", "--session", "s"}, {"send", "--wait", "s"}, {"task", "--session", "s"}} {
		for limit, want := range map[string]string{"tool_calls=2": "3 > 2", "tool_calls=5,requests=8": "4 > 3"} {
			p = at(t, url, append(args, "--limit", limit, "more")...)
			if code := p.end(t); code == cli.CodeOK || !strings.Contains(p.err.String(), "tool call limit exceeded: "+want) {
				t.Errorf("%q %s: code %d, err %s", args, limit, code, p.err)
			}
		}
	}
}

func TestModelsAndLimitsAreCompleted(t *testing.T) {
	t.Parallel()
	want := "anthropic:\nopenai:\ngemini:\nfallback:\nrecord:\nreplay:\nscripted:\ndemo\n"
	if p := expect(t, cli.CodeOK, "__complete", "run", "--model", ""); !strings.HasPrefix(p.out.String(), want) {
		t.Errorf("models are completed to %q", p.out)
	}
	if p := expect(t, cli.CodeOK, "__complete", "send", "--limit", ""); !strings.HasPrefix(p.out.String(), "requests=\ntokens=\n") {
		t.Errorf("limits are completed to %q", p.out)
	}
}
