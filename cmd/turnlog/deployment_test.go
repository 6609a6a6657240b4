package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/effect"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
)

// at begins a program against a deployment.
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

func TestASessionGoesOnFromRunToRun(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	if got := succeed(t, url, "run", "--session", "s", "--model", scripted(t, echo), "one"); got != "You said one.\n" {
		t.Errorf("first run prints %q", got)
	}
	if got := succeed(t, url, "run", "--session", "s", "-o", "json", "two"); !strings.Contains(got, `"turn":"turn-2"`) {
		t.Errorf("second run prints %s", got)
	}
	if got := succeed(t, url, "sessions", "ls"); got != "s\n" {
		t.Errorf("sessions ls prints %q", got)
	}
	if got := succeed(t, url, "sessions", "ls", "-o", "json"); got != "[\"s\"]\n" {
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
	c, err := client.Open(connect(t, url), "")
	if err != nil {
		t.Fatal(err)
	}
	state, _, err := c.Read(t.Context(), "both")
	if err != nil {
		t.Fatal(err)
	}
	said := make(map[string]int)
	for _, it := range state.Transcript {
		if it.Kind == content.User {
			said[it.Text()]++
		}
	}
	for _, w := range words {
		if said[w] != 1 {
			t.Errorf("%s was heard %d times", w, said[w])
		}
	}
}

func TestABusySessionDoesWhatTheFlagSays(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	first := at(t, url, "run", "--session", "s", "-o", "jsonl", "--model", scripted(t, endless), "wait")
	first.out.await(t, "model_call_started")

	p := at(t, url, "run", "--session", "s", "--on-busy", "reject", "me too")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "session s is busy") {
		t.Errorf("reject: code %d, err %s", code, p.err)
	}
	queued := at(t, url, "run", "--session", "s", "-o", "jsonl", "and then")
	queued.out.await(t, `"input_queued"`)
	queued.signals <- os.Interrupt
	if code := queued.end(t); code != cli.CodeCancelled || !strings.Contains(queued.err.String(), "the input waits behind it") {
		t.Errorf("queue: code %d, err %s", code, queued.err)
	}
	if got := succeed(t, url, "cancel", "s", "--reason", "enough"); got != "" {
		t.Errorf("cancel prints %q", got)
	}
	if code := first.end(t); code != cli.CodeCancelled || !strings.Contains(first.err.String(), `cancelled: "enough"`) {
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
	p := prepare(t, strings.NewReader("four\n"), nil).start(t, "send", "s", "--wait", "-", "--server", url)
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "You said four.\n" {
		t.Errorf("send -: code %d, out %q, err %q", code, p.out, p.err)
	}
	for _, args := range [][]string{{"send", "nobody", "hi"}, {"send", "--wait", "nobody", "hi"}, {"cancel", "nobody"}, {"sessions", "show", "nobody"}} {
		p := at(t, url, args...)
		if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "there is no session nobody") {
			t.Errorf("%q: code %d, err %s", args, code, p.err)
		}
	}
	p = at(t, url, "cancel", "s")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "no turn is open") {
		t.Errorf("cancel: code %d, err %s", code, p.err)
	}
}

// askFirst wants a person's decision about every call.
type askFirst struct{}

func (askFirst) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{Ruling: tool.Ask, Summary: "wants to greet"}, nil
}

func TestRunStopsAtAnApproval(t *testing.T) {
	t.Parallel()
	greet, err := tool.Func("greet", "Greets.", func(context.Context, struct{}) (string, error) { return "hello", nil })
	if err != nil {
		t.Fatal(err)
	}
	cfg := node()
	cfg.Effects = effect.Config{Permissions: askFirst{}}
	url := cellOf(t, cfg, greet)
	p := at(t, url, "run", "-o", "json", "--model", scripted(t, "replies:\n  - calls: [{name: greet, input: {}}]\n  - text: Done.\n"), "hi")
	if code := p.end(t); code != cli.CodeApproval || !strings.Contains(p.err.String(), "greet (call call_1_1) needs approval: wants to greet") {
		t.Errorf("code %d, err %s", code, p.err)
	}
	if !strings.Contains(p.out.String(), `"finish_reason":"needs_approval"`) {
		t.Errorf("out = %s", p.out)
	}
}

func TestRunSaysThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	url := cellOf(t, actor.Config{}) // no node
	p := prepare(t, nil, nil)
	p.app.patience = patience{nudge: time.Millisecond, answer: 100 * time.Millisecond, cancel: time.Second}
	p.start(t, "run", "--server", url, "--model", scripted(t, oneReply), "hi")
	if code := p.end(t); code != cli.CodeFailed {
		t.Errorf("code = %d", code)
	}
	for _, want := range []string{"nobody has answered yet", "no driver answered within 100ms"} {
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("err = %q, want %q", p.err, want)
		}
	}
	p = prepare(t, nil, nil)
	p.app.patience.cancel = 10 * time.Millisecond
	p.start(t, "run", "--server", url, "--timeout", "10ms", "--model", scripted(t, oneReply), "hi")
	if code := p.end(t); code != cli.CodeCancelled {
		t.Errorf("timeout: code = %d, err = %s", code, p.err)
	}
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
	url := plainServer(t)
	for _, args := range [][]string{{"run", "--model", scripted(t, oneReply), "hi"}, {"provision"}} {
		p := at(t, url, args...)
		if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), jetstream.ErrNoJetStream.Error()) {
			t.Errorf("%q: code %d, err %s", args, code, p.err)
		}
	}
}

// plainServer answers like a NATS server on which nobody listens to anything.
func plainServer(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serveNobody(conn)
		}
	}()
	return "nats://" + l.Addr().String()
}

// serveNobody answers every request with "no responders".
func serveNobody(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(conn, format, args...) }
	say("INFO {\"server_id\":\"X\",\"version\":\"2.15.0\",\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n")
	sids := make(map[string]string)
	in := bufio.NewScanner(conn)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "PING":
			say("PONG\r\n")
		case "SUB":
			sids[strings.TrimSuffix(words[1], "*")] = words[len(words)-1]
		case "PUB", "HPUB":
			for prefix, sid := range sids {
				if len(words) > 3 && strings.HasPrefix(words[2], prefix) {
					const status = "NATS/1.0 503\r\n\r\n"
					say("HMSG %s %s %d %d\r\n%s\r\n", words[2], sid, len(status), len(status), status)
				}
			}
		}
	}
}

// rogue is a tool that does not do what it should.
type rogue struct {
	name string
	call func(context.Context) (tool.Output, error)
}

func (r rogue) Spec() tool.Spec { return tool.Spec{Name: r.name, Timeout: 100 * time.Millisecond} }

func (r rogue) Call(ctx context.Context, _ tool.Call) (tool.Output, error) { return r.call(ctx) }

func TestToolsThatMisbehaveBecomeResults(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node(),
		rogue{"panics", func(context.Context) (tool.Output, error) { panic("boo") }},
		rogue{"hangs", func(ctx context.Context) (tool.Output, error) {
			<-ctx.Done()
			return tool.Output{}, context.Cause(ctx)
		}},
		rogue{"babbles", func(context.Context) (tool.Output, error) { return tool.Text("a\xff\xfeb"), nil }},
		rogue{"floods", func(context.Context) (tool.Output, error) { return tool.Text(strings.Repeat("y", 50<<20)), nil }},
	)
	p := at(t, url, "run", "-o", "json", "--model", scripted(t, `
replies:
  - calls: [{name: panics, input: {}}, {name: hangs, input: {}}, {name: babbles, input: {}}, {name: floods, input: {}}, {name: unknown, input: {}}]
  - text: "{{range .Results}}{{printf \"%.40s\" .Text}}|{{end}}"
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
		want := []string{"Tool failed: ", "Tool timed out after ", "a\uFFFDb", "yyyy", "Tool not found: unknown"}[i]
		if !strings.HasPrefix(text, want) {
			t.Errorf("the model is told %q, want %q", text, want)
		}
	}
}
