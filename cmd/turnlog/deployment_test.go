package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/tool"
)

// at starts a program that connects to a deployment.
func at(t *testing.T, url string, args ...string) *program {
	t.Helper()
	return prepare(t, strings.NewReader(""), nil).start(t, append(args, "--server", url)...)
}

// succeed runs the binary against a deployment and returns what it prints.
func succeed(t *testing.T, url string, args ...string) string {
	t.Helper()
	p := at(t, url, args...)
	if code := p.end(t); code != cli.CodeOK {
		t.Fatalf("turnlog %q exits with %d:\n%s", args, code, p.err)
	}
	return p.out.String()
}

// awaitEvents reads the journal of a session until it has n events of a kind.
func awaitEvents(t *testing.T, url string, s content.SessionID, kind events.Kind, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	for rec, err := range cellAt(t, url).Journal().Follow(ctx, s, 0) {
		if err != nil {
			t.Fatalf("wait for %d %s: %v", n, kind, err)
		}
		for _, k := range rec.Entry.Kinds() {
			if k == kind {
				n--
			}
		}
		if n <= 0 {
			return
		}
	}
	t.Fatalf("%d more %s are missing in session %s", n, kind, s)
}

// persist repeats a request that a busy server may not answer in time, until it succeeds.
func persist(t *testing.T, what string, try func() bool) {
	t.Helper()
	tick, late := time.NewTicker(20*time.Millisecond), time.After(clitest.Patience)
	defer tick.Stop()
	for !try() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestASessionGoesOnFromRunToRun(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	if got := succeed(t, url, "run", "--session", "s", "--model", scripted(t, echo), "one"); got != "You said one.\n" {
		t.Errorf("first run prints %q", got)
	}
	if got := succeed(t, url, "run", "--session", "s", "-o", "json", "two"); !strings.Contains(got, `"turn":"turn-2"`) {
		t.Errorf("second run prints %s", got)
	}
	if got := succeed(t, url, "sessions", "ls"); !strings.Contains(got, "\ns        idle ") {
		t.Errorf("sessions ls prints %q", got)
	}
	if got := succeed(t, url, "sessions", "ls", "-o", "json"); !strings.HasPrefix(got, `[{"session":"s","state":"idle","title":"one",`) {
		t.Errorf("sessions ls -o json prints %q", got)
	}
	if got := succeed(t, url, "sessions", "show", "s"); !strings.Contains(got, "turns        2\n") {
		t.Errorf("sessions show prints %s", got)
	}
	var r sessionReport
	if err := json.Unmarshal([]byte(succeed(t, url, "sessions", "show", "s", "-o", "json")), &r); err != nil || r.State != "idle" || r.Items != 4 {
		t.Errorf("sessions show = %+v, %v", r, err)
	}
	p := at(t, url, "run", "--session", "s", "--system", "Be brief.", "three")
	if code := p.end(t); code != cli.CodeUsage || !strings.Contains(p.err.String(), "--system is for a new session") {
		t.Errorf("code %d, err %s", code, p.err)
	}
}

func TestTwoRunsOnOneSessionLoseNothing(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	model := scripted(t, "replies:\n  - text: \"You said {{.Prompt}}.\"\n    delay: 50ms\n    repeat: true\n")
	var runs []*program
	words := []string{"red", "green", "blue", "black"}
	for _, w := range words {
		runs = append(runs, at(t, url, "run", "--session", "both", "--model", model, w))
	}
	for i, p := range runs {
		if code := p.end(t); code != cli.CodeOK || !strings.HasPrefix(p.out.String(), "You said ") {
			t.Errorf("%s: code %d, out %q, err %q", words[i], code, p.out, p.err)
		}
	}
	c, err := client.Open(clitest.Dial(t, url), "")
	if err != nil {
		t.Fatal(err)
	}
	state, _, err := c.Read(t.Context(), "both")
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]int)
	for _, it := range state.Transcript {
		if it.Kind == content.User {
			texts[it.Text()]++
		}
	}
	for _, w := range words {
		if texts[w] != 1 {
			t.Errorf("%s was recorded %d times", w, texts[w])
		}
	}
}

func TestTheFlagDecidesWhatABusySessionDoes(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	first := at(t, url, "run", "--session", "s", "-o", "jsonl", "--model", scripted(t, endless), "wait")
	first.out.Await(t, "model_call_started")

	p := at(t, url, "run", "--session", "s", "--on-busy", "reject", "me too")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "session s is busy") {
		t.Errorf("reject: code %d, err %s", code, p.err)
	}
	queued := at(t, url, "run", "--session", "s", "-o", "jsonl", "and then")
	queued.out.Await(t, `"input_queued"`)
	queued.signals <- os.Interrupt
	if code := queued.end(t); code != cli.CodeCancelled || !strings.Contains(queued.err.String(), "the input waits for its end") {
		t.Errorf("queue: code %d, err %s", code, queued.err)
	}
	if got := succeed(t, url, "cancel", "s", "--reason", "enough"); got != "" {
		t.Errorf("cancel prints %q", got)
	}
	if code := first.end(t); code != cli.CodeCancelled || !strings.Contains(first.err.String(), "cancelled: enough\n") {
		t.Errorf("first: code %d, err %s", code, first.err)
	}
	p = at(t, url, "run", "--session", "s", "--on-busy", "interrupt", "--timeout", "50ms", "last")
	if code := p.end(t); code != cli.CodeCancelled {
		t.Errorf("interrupt: code %d, err %s", code, p.err)
	}
}

func TestSendLeavesInputAndCanWaitForTheTurn(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	succeed(t, url, "run", "--session", "s", "--model", scripted(t, echo), "one")
	if got := succeed(t, url, "send", "s", "--wait", "two"); got != "You said two.\n" {
		t.Errorf("send --wait prints %q", got)
	}
	var left sent
	if err := json.Unmarshal([]byte(succeed(t, url, "send", "s", "-o", "json", "three")), &left); err != nil || left.Command == "" {
		t.Errorf("send = %+v, %v", left, err)
	}
	succeed(t, url, "wait", "s")
	if got := succeed(t, url, "wait", strings.TrimSpace(succeed(t, url, "send", "s", "and three"))); got != "You said and three.\n" {
		t.Errorf("wait for what send printed: %q", got)
	}
	p := prepare(t, strings.NewReader("four\n"), nil).start(t, "send", "s", "--wait", "-", "--server", url)
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "You said four.\n" {
		t.Errorf("send -: code %d, out %q, err %q", code, p.out, p.err)
	}
	for _, args := range [][]string{{"send", "ghost", "hi"}, {"send", "--wait", "ghost", "hi"}, {"cancel", "ghost"}, {"sessions", "show", "ghost"}} {
		p := at(t, url, args...)
		if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "session ghost: no such session") {
			t.Errorf("%q: code %d, err %s", args, code, p.err)
		}
	}
	p = at(t, url, "cancel", "s")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "no turn is open") {
		t.Errorf("cancel: code %d, err %s", code, p.err)
	}
}

func TestRunReportsThatNoNodeAnswers(t *testing.T) {
	t.Parallel()
	url := cellOf(t, actor.Config{}) // no node
	p := prepare(t, nil, nil)
	p.app.Patience.Nudge, p.app.Patience.Answer = time.Millisecond, 3*time.Second // so far apart that the first comes first
	p.start(t, "run", "--server", url, "--model", scripted(t, oneReply), "hi")
	if code := p.end(t); code != cli.CodeFailed {
		t.Errorf("code = %d", code)
	}
	for _, want := range []string{"no answer yet", "no driver answered within 3s"} {
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("err = %q, want %q", p.err, want)
		}
	}
}

func TestACommandWithoutAServerCanBeInterrupted(t *testing.T) {
	t.Parallel()
	srv := natstest.Serve(t)
	cell, _ := clitest.Open(t, srv.ClientURL())
	if err := admin.Of(cell).Provision(t.Context(), admin.Config{Memory: true}); err != nil {
		t.Fatal(err)
	}
	p := prepare(t, nil, nil)
	p.app.Patience.Cancel = 10 * time.Millisecond
	p.start(t, "run", "--server", srv.ClientURL(), "--session", "s", "--model", scripted(t, oneReply), "hi")
	for sent := 0; sent == 0; {
		got, err := natstest.Collect(cell.Inbox().Read(t.Context(), "s", nil, 0))
		if err != nil {
			t.Fatal(err)
		}
		sent = len(got)
	}
	srv.Close()
	p.signals <- syscall.SIGTERM
	if code := p.end(t); code != cli.CodeCancelled {
		t.Errorf("code = %d", code)
	}
	if want := "session s may continue, since its cancel could not be sent"; !strings.Contains(p.err.String(), want) {
		t.Errorf("err = %q, want %q", p.err, want)
	}
}

func TestACommandWithoutADriverCanBeInterrupted(t *testing.T) {
	t.Parallel()
	url := cellOf(t, actor.Config{}) // no node
	for name, leave := range map[string]struct {
		flag string
		by   func(*program)
	}{
		"timeout":   {"10ms", func(*program) {}},
		"interrupt": {"0s", func(p *program) { p.signals <- os.Interrupt }},
	} {
		p := prepare(t, nil, nil)
		p.app.Patience.Leave = time.Nanosecond
		p.start(t, "run", "--server", url, "--session", name, "--timeout", leave.flag, "--model", scripted(t, oneReply+"    repeat: true\n"), "hi")
		for inbox := cellAt(t, url).Inbox(); ; {
			if sent, err := natstest.Collect(inbox.Read(t.Context(), content.SessionID(name), nil, 0)); err != nil {
				t.Fatal(err)
			} else if len(sent) > 0 {
				break
			}
		}
		start := time.Now()
		leave.by(p)
		if code := p.end(t); code != cli.CodeCancelled {
			t.Errorf("%s: code = %d", name, code)
		}
		if took := time.Since(start); took > clitest.Patience/2 {
			t.Errorf("%s: it took %v", name, took)
		}
		inbox := cellAt(t, url).Inbox()
		sent, err := natstest.Collect(inbox.Read(t.Context(), content.SessionID(name), nil, 0))
		if err != nil || len(sent) != 2 || inbox.Open(t.Context(), &sent[1]) != nil || commands.NameOf(sent[1].Envelope.Command) != commands.NameOf(commands.Cancel{}) {
			t.Errorf("%s: it left %d commands, %v; want the input and its cancel", name, len(sent), err)
		}
		if want := "no driver node has taken session " + name + ": the input stays queued, followed by its cancel"; !strings.Contains(p.err.String(), want) {
			t.Errorf("%s: err = %q, want %q", name, p.err, want)
		}
	}
	hostOn(t, &cli.Cell{Cell: cellAt(t, url), Conn: clitest.Dial(t, url)}, node())
	if got := succeed(t, url, "run", "--session", "timeout", "again"); got != "Hello.\n" {
		t.Errorf("the next run prints %q", got)
	}
	var r sessionReport
	if err := json.Unmarshal([]byte(succeed(t, url, "sessions", "show", "timeout", "-o", "json")), &r); err != nil || r.Turns != 2 {
		t.Errorf("sessions show = %+v, %v", r, err)
	}
}

func TestInputThatWasHandledBeforeIsReported(t *testing.T) {
	t.Parallel()
	url := cellOf(t, actor.Config{})
	cell := cellAt(t, url)
	p := prepare(t, nil, nil)
	p.app.Patience.Cancel = 10 * time.Millisecond
	p.start(t, "run", "--server", url, "--session", "s", "--model", scripted(t, oneReply), "hi")
	for refused := false; !refused; {
		sent, err := natstest.Collect(cell.Inbox().Read(t.Context(), "s", nil, 0))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range sent {
			refused = true
			if err := cell.Inbox().Open(t.Context(), &m); err != nil {
				t.Fatal(err)
			}
			if err := cell.Live().Publish("s", events.Refused{Command: m.Envelope.ID}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "session s ignored the input: it was handled before") {
		t.Errorf("code %d, err %s", code, p.err)
	}
}

// cellAt is a deployment's cell.
func cellAt(t *testing.T, url string) *jetstream.Cell {
	t.Helper()
	cell, err := jetstream.Open(clitest.Dial(t, url), "")
	if err != nil {
		t.Fatal(err)
	}
	return cell
}

func TestProvisionCreatesAndCompares(t *testing.T) {
	t.Parallel()
	url := cellOf(t, actor.Config{})
	if got := succeed(t, url, "provision", "--memory", "--namespace", "team-a"); !strings.HasPrefix(got, "team-a is ready at ") {
		t.Errorf("provision prints %q", got)
	}
	succeed(t, url, "provision", "--memory", "--namespace", "team-a")
	p := at(t, url, "provision", "--namespace", "team-a")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "TEAM_A_JOURNAL: storage is memory, must be file") &&
		!strings.Contains(p.err.String(), "JOURNAL: storage is memory, must be file") {
		t.Errorf("mismatch: code %d, err %s", code, p.err)
	}
	p = at(t, url, "sessions", "ls", "--namespace", "nothing")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "not provisioned") {
		t.Errorf("missing: code %d, err %s", code, p.err)
	}
}

func TestAServerWithoutJetStreamIsNamed(t *testing.T) {
	t.Parallel()
	url := clitest.NoJetStream(t)
	for _, args := range [][]string{{"run", "--model", scripted(t, oneReply), "hi"}, {"provision"}} {
		p := at(t, url, args...)
		if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), jetstream.ErrNoJetStream.Error()) {
			t.Errorf("%q: code %d, err %s", args, code, p.err)
		}
	}
}

// rogue is a tool that violates its contract.
type rogue struct {
	name    string
	timeout time.Duration
	call    func(context.Context) (tool.Output, error)
}

func (r rogue) Spec() tool.Spec { return tool.Spec{Name: r.name, Timeout: r.timeout} }

func (r rogue) Call(ctx context.Context, _ tool.Call) (tool.Output, error) { return r.call(ctx) }

func TestToolsThatMisbehaveBecomeResults(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node(),
		rogue{"panics", 0, func(context.Context) (tool.Output, error) { panic("boo") }},
		rogue{"hangs", 300 * time.Millisecond, func(ctx context.Context) (tool.Output, error) {
			<-ctx.Done()
			return tool.Output{}, context.Cause(ctx)
		}},
		rogue{"babbles", 0, func(context.Context) (tool.Output, error) { return tool.Text("a\xff\xfeb"), nil }},
		rogue{"floods", 0, func(context.Context) (tool.Output, error) { return tool.Text(strings.Repeat("y", 50<<20)), nil }},
	)
	p := at(t, url, "run", "--yes", "-o", "json", "--model", scripted(t, `
replies:
  - calls: [{name: panics, input: {}}, {name: hangs, input: {}}, {name: babbles, input: {}}, {name: floods, input: {}}, {name: unknown, input: {}}]
  - text: "{{range .Results}}{{if eq .Name \"floods\"}}{{slice .Text 0 40}}{{else}}{{.Text}}{{end}}|{{end}}"
`), "go")
	if code := p.end(t); code != cli.CodeOK {
		t.Fatalf("code %d, err %s", code, p.err)
	}
	var r turnReport
	if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"error", "error", "ok", "ok", "error"} {
		if r.ToolCalls[i].Status != want {
			t.Errorf("%s is %s, want %s", r.ToolCalls[i].Name, r.ToolCalls[i].Status, want)
		}
	}
	for i, text := range strings.Split(r.Text, "|")[:5] {
		want := []string{"Tool failed: ", "Tool timed out ", "a\uFFFDb", "yyyy", "Tool not found: unknown"}[i]
		if !strings.HasPrefix(text, want) {
			t.Errorf("the model sees %q, want %q", text, want)
		}
	}
}
