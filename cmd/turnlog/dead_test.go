package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream/trials"
	"github.com/turnlog/turnlog/tool"
)

// payer is a tool that must not run twice. The test decides when it answers.
type payer struct{ began, answer chan struct{} }

func (payer) Spec() tool.Spec { return tool.Spec{Name: "pay"} }

func (p payer) Call(ctx context.Context, _ tool.Call) (tool.Output, error) {
	p.began <- struct{}{}
	select {
	case <-p.answer:
		return tool.Text("paid"), nil
	case <-ctx.Done():
		return tool.Output{}, context.Cause(ctx)
	}
}

const paying = `
replies:
  - calls: [{name: pay, input: {sum: 5}}]
  - text: "{{(index .Results 0).Text}}"
  - text: "I see."
    repeat: true
`

// withDeadLetters starts a deployment in which each session has lost the worker of a call.
func withDeadLetters(t *testing.T, sessions ...string) string {
	t.Helper()
	url := cellOf(t, actor.Config{})
	p := payer{make(chan struct{}), make(chan struct{})}
	stop := hostOn(t, &cli.Cell{Cell: cellAt(t, url), Conn: clitest.Dial(t, url)}, node(), p)
	var runs []*program
	for _, s := range sessions {
		runs = append(runs, at(t, url, "run", "--yes", "--session", s, "--model", scripted(t, paying), "go"))
		<-p.began
	}
	stop()
	p = payer{make(chan struct{}, 9), make(chan struct{})}
	close(p.answer)
	hostOn(t, &cli.Cell{Cell: cellAt(t, url), Conn: clitest.Dial(t, url)}, node(), p)
	for _, r := range runs {
		if code := r.end(t); code != cli.CodeOK || !strings.HasPrefix(r.out.String(), "Outcome unknown") {
			t.Fatalf("code %d, out %s, err %s", code, r.out, r.err)
		}
	}
	return url
}

func TestDeadLettersAreListedRunAgainAndDropped(t *testing.T) {
	t.Parallel()
	url := withDeadLetters(t, "s", "other")
	out := succeed(t, url, "dead", "ls")
	for _, want := range []string{"SESSION  CALL", "other    call_1_1  pay   once     1", "s        call_1_1", "its worker was stopped in the middle of the call"} {
		if !strings.Contains(out, want) {
			t.Errorf("dead ls prints\n%s\nwant %q", out, want)
		}
	}
	refused := at(t, url, "dead", "retry", "s", "call_1_1")
	if code := refused.end(t); code != cli.CodeFailed || !strings.Contains(refused.err.String(), "pay (call call_1_1) may have taken effect: check, and if it is safe to repeat, add --may-repeat") {
		t.Errorf("retry: code %d, err %s", code, refused.err)
	}
	if got := succeed(t, url, "dead", "retry", "s", "call_1_1", "--may-repeat", "--reason", "no such payment"); got != "pay (call call_1_1) runs again\n" {
		t.Errorf("retry prints %q", got)
	}
	if got := succeed(t, url, "dead", "drop", "other", "call_1_1", "--reason", "by hand"); got != "pay (call call_1_1) is dropped\n" {
		t.Errorf("drop prints %q", got)
	}
	awaitEvents(t, url, "s", events.KindTurnStarted, 2)
	if got := succeed(t, url, "wait", "s"); got != "I see.\n" {
		t.Errorf("wait prints %q", got)
	}
	for _, all := range [][]string{{"dead", "ls", "-o", "json"}, {"dead", "ls", "s", "-o", "json"}} {
		if got := succeed(t, url, all...); got != "[]\n" {
			t.Errorf("%q prints %q", all, got)
		}
	}
	var c deadLetter
	if err := json.Unmarshal([]byte(succeed(t, url, "dead", "show", "s", "call_1_1", "-o", "json")), &c); err != nil {
		t.Fatal(err)
	}
	if c.State != "over" || c.Result != "ok" || c.Attempts != 2 || len(c.Lost) != 1 || len(c.Settled) != 1 || string(c.Input) != `{"sum":5}` {
		t.Errorf("show = %+v", c)
	}
	if s := c.Settled[0]; s.Outcome != events.DeadRetried || s.Reason != "no such payment" || s.By == "" || s.At == 0 {
		t.Errorf("settled = %+v", s)
	}
	for _, want := range []string{"state     dropped\n", "dropped   20", "by hand\n", "lost      20", `input     {"sum":5}`} {
		if got := succeed(t, url, "dead", "show", "other", "call_1_1"); !strings.Contains(got, want) {
			t.Errorf("show prints\n%s\nwant %q", got, want)
		}
	}
}

func TestOnlyDeadLettersAreRetriedOrDropped(t *testing.T) {
	t.Parallel()
	url := withDeadLetters(t, "s", "shut")
	c, err := client.Open(clitest.Dial(t, url), "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Attach(t.Context(), "shut")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	if err := s.Ask(t.Context(), commands.Close{Reason: "done"}); err != nil {
		t.Fatal(err)
	}
	succeed(t, url, "dead", "drop", "s", "call_1_1")
	for args, want := range map[string]string{
		"dead retry s call_1_1":                 "call call_1_1 was dropped",
		"dead drop s call_1_1":                  "call call_1_1 was dropped",
		"dead show s call_9_9":                  `session s has no call call_9_9: "turnlog calls s" lists`,
		"dead show ghost call_1_1":              "session ghost: no such session",
		"dead ls ghost":                         "session ghost: no such session",
		"dead retry shut call_1_1 --may-repeat": "session shut is closed",
		"dead drop shut call_1_1":               "session shut is closed",
	} {
		p := at(t, url, strings.Fields(args)...)
		if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), want) {
			t.Errorf("%s: code %d, err %s, want %q", args, code, p.err, want)
		}
	}
	if got := succeed(t, url, "dead", "ls"); got != "" {
		t.Errorf("dead ls prints %q", got)
	}
}

func TestASessionThatIsSetAsideIsExplainedAndRetried(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.aliveNode()
	p.ask("killer")
	note := trials.Trial{Session: "killer", Broke: []trials.Breakage{{Node: "n1", At: 1}, {Node: "n2", At: 2, Error: "it panics"}}}
	_, err := trials.Of(p.cell).Put(t.Context(), note)
	p.must(err)

	f := p.impatient().expect(t, "error session-aside killer")["session-aside"]
	if !strings.Contains(f.What, "node n1 ended at") || !strings.Contains(f.What, "node n2 reported it panics at") || !strings.Contains(f.Do, "turnlog dead retry killer") {
		t.Errorf("finding %+v", f)
	}
	if out := succeed(t, p.url, "dead", "ls"); !strings.Contains(out, "killer") || !strings.Contains(out, "on node n2: it panics") {
		t.Errorf("dead ls prints %s", out)
	}
	if out := succeed(t, p.url, "dead", "ls", "killer", "-o", "json"); !strings.Contains(out, `"state":"aside"`) {
		t.Errorf("dead ls prints %s", out)
	}
	if out := succeed(t, p.url, "dead", "retry", "killer"); out != "session killer is driven again\n" {
		t.Errorf("dead retry prints %s", out)
	}
	f = p.impatient().expect(t, "error session-waiting")["session-waiting"] // for a node
	if len(f.Sessions) != 1 {
		t.Errorf("finding %+v", f)
	}
	again := at(t, p.url, "dead", "retry", "killer")
	if code := again.end(t); code != cli.CodeFailed || !strings.Contains(again.err.String(), "session is not set aside") {
		t.Errorf("code %d, err %s", code, again.err)
	}
}

func TestASessionThatIsSetAsideHasAStateOfItsOwn(t *testing.T) {
	t.Parallel()
	url := cellOf(t, actor.Config{})
	hostOn(t, &cli.Cell{Cell: cellAt(t, url), Conn: clitest.Dial(t, url)}, node())
	succeed(t, url, "run", "--session", "killer", "--model", scripted(t, "replies: [{text: ok}]"), "go")
	note := trials.Trial{Session: "killer", Broke: []trials.Breakage{{Node: "n1", At: 1}, {Node: "n2", At: 2}}}
	if _, err := trials.Of(cellAt(t, url)).Put(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	if out := succeed(t, url, "sessions", "ls", "--state", "aside"); !strings.Contains(out, "killer") {
		t.Errorf("sessions ls prints %s", out)
	}
}
