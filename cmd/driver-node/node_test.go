package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/internal/testing/parallel"
	"github.com/turnlog/turnlog/session"
)

// TestMain runs more tests at once than there are CPUs: most of them wait for a node.
func TestMain(m *testing.M) {
	parallel.Tests(8)
	natstest.Main(m)
}

// program is one run of the binary.
type program struct {
	err  *clitest.Screen
	stop context.CancelCauseFunc
	code chan int
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{err: clitest.NewScreen(), code: make(chan int, 1)}
	ctx, stop := context.WithCancelCause(t.Context())
	p.stop = stop
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the program %q printed:\n%s", args, p.err)
		}
	})
	root := newRootCommand(p.err, clitest.NoEnv)
	root.SetOut(io.Discard)
	root.SetArgs(args)
	go func() { p.code <- cli.Execute(ctx, root) }()
	return p
}

func (p *program) end(t *testing.T) int {
	t.Helper()
	select {
	case code := <-p.code:
		return code
	case <-time.After(time.Minute):
		t.Fatal("the program did not end")
		return -1
	}
}

func TestTheNodeDrivesSessionsUntilASignal(t *testing.T) {
	t.Parallel()
	url := natstest.Serve(t).ClientURL()
	p := start(t, "--server", url, "--name", "n1", "--http", "127.0.0.1:0", "--tools", "fs", "--root", t.TempDir())
	base := "http://" + p.err.AwaitMatch(t, `"address": "([^"]+)"`)
	p.err.AwaitMatch(t, "node started")

	c, err := client.Open(clitest.Dial(t, url), "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := c.Start(ctx, client.Options{Config: events.Config{Model: "scripted:x", ModelData: []byte(
		"replies: [{calls: [{name: fs_find, input: {glob: '*'}}]}, {text: 'found: {{(index .Results 0).Text}}'}]",
	)}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	if err := s.Send(ctx, events.Steer, content.UserText("hi")); err != nil {
		t.Fatal(err)
	}
	step, err := s.Next(ctx)
	if fin, ok := step.(*session.Finished); err != nil || !ok || !strings.HasPrefix(fin.Result.Text(), "found: nothing matches") {
		t.Fatalf("Next = %v, %v", step, err)
	}

	if code, body := clitest.Get(t, base+"/readyz"); code != http.StatusOK {
		t.Errorf("readyz = %d %s", code, body)
	}
	for _, want := range []string{
		"turnlog_node_sessions 1\n", "turnlog_node_sessions_taken_total 1\n", `turnlog_node_effects_total{kind="model"} 2`, `turnlog_node_effects_total{kind="tool"} 1`,
		`turnlog_node_sessions_left_total{how="lost"} 0`, "turnlog_node_takeovers_total 0\n", `turnlog_node_turns_total{reason="completed"} 1`,
		`turnlog_node_tokens_total{kind="input"} `, `turnlog_node_commands_total{command="submit_input",outcome="accepted"} 1`, "turnlog_node_append_duration_seconds_count ",
	} {
		clitest.AwaitPage(t, base+"/metrics", want) // the node counts after it has published
	}
	if diff := cmp.Diff([]string{
		"turnlog_node_append_duration_seconds histogram", "turnlog_node_commands_total counter", "turnlog_node_effects_total counter",
		"turnlog_node_events_total counter", "turnlog_node_sessions gauge", "turnlog_node_sessions_left_total counter",
		"turnlog_node_sessions_taken_total counter", "turnlog_node_takeovers_total counter", "turnlog_node_tokens_total counter",
		"turnlog_node_turns_total counter",
	}, clitest.Metrics(t, base+"/metrics")); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	p.stop(&cli.Interrupted{Signal: os.Interrupt})
	if code := p.end(t); code != cli.CodeOK {
		t.Errorf("exit code %d:\n%s", code, p.err)
	}
	if log := p.err.String(); !strings.Contains(log, "configuration") || !strings.Contains(log, `"how": "parked"`) {
		t.Errorf("log:\n%s", log)
	}

	p = start(t, "--server", url, "--name", "n2", "--http", "127.0.0.1:0") // keeps the session's row in the list, if n1 has not
	p.err.AwaitMatch(t, "node started")                                    // before that, a signal ends it with a failure
	for pages := 0; pages == 0; {
		for _, err := range c.Pages().After(ctx, 0) {
			if err != nil {
				t.Fatal(err)
			}
			pages++
		}
		if !pause.For(ctx, 10*time.Millisecond) {
			t.Fatalf("no page was written:\n%s", p.err)
		}
	}
	p.stop(&cli.Interrupted{Signal: os.Interrupt})
	if code := p.end(t); code != cli.CodeOK {
		t.Errorf("exit code %d:\n%s", code, p.err)
	}
}

func TestBadFlagsAreRefusedWithOneLine(t *testing.T) {
	t.Parallel()
	url := natstest.Serve(t).ClientURL()
	for _, tc := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"--capacity", "0"}, cli.CodeUsage, "--capacity 0: use 1 or more"},
		{[]string{"--policy", "/no/such/file"}, cli.CodeUsage, "--policy: open /no/such/file"},
		{[]string{"--policy", "node_test.go"}, cli.CodeUsage, "--policy node_test.go: not a policy"},
		{[]string{"--idle", "0s"}, cli.CodeUsage, "--idle 0s"},
		{[]string{"--worker-patience", "-1s"}, cli.CodeUsage, "--worker-patience -1s"},
		{[]string{"--drain", "0s", "--log-level", "error"}, cli.CodeUsage, "--drain 0s: use a positive time"},
		{[]string{"--tools", "fs,shell"}, cli.CodeUsage, "these tools run commands on the machine of the node: add --allow-commands"},
		{[]string{"--mcp", "x=/no/such/program"}, cli.CodeUsage, "add --allow-commands"},
		{[]string{"--tools", "sf"}, cli.CodeUsage, `--tools: unknown set of tools "sf"`},
		{[]string{"--name", "a b", "--log-level", "error"}, cli.CodeUsage, `Name "a b"`},
		{[]string{"now"}, cli.CodeUsage, `unknown command "now"`},
		{[]string{"--server", "127.0.0.1:1", "--connect-timeout", "10ms", "--log-level", "error"}, cli.CodeFailed, "connect to NATS at nats://127.0.0.1:1: no server answers"},
		{[]string{"--provision=false", "--namespace", "empty"}, cli.CodeFailed, "not provisioned"},
		{[]string{"--http", "nonsense", "--log-level", "error"}, cli.CodeFailed, "serve http at nonsense"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			t.Parallel()
			p := start(t, append([]string{"--server", url}, tc.args...)...)
			if code := p.end(t); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			say := p.err.String()
			if !strings.HasPrefix(say, "driver-node: ") || !strings.Contains(say, tc.say) || strings.Count(say, "\n") != 1 {
				t.Errorf("err = %q, want one line with %q", say, tc.say)
			}
		})
	}
}

func TestScriptsAreNotReadFromTheNodesDisk(t *testing.T) {
	t.Parallel()
	open := models(clitest.NoEnv).OpenShared
	if _, err := open("scripted:models.go", nil); err == nil || !strings.Contains(err.Error(), "without the script's content") {
		t.Errorf("open = %v", err)
	}
	if _, err := open("scripted:x", []byte("replies: [{text: hello}]")); err != nil {
		t.Errorf("open = %v", err)
	}
	if m, err := open("demo", nil); err != nil || m.Name() != "demo" {
		t.Errorf("open = %v, %v", m, err)
	}
	if _, err := open("", nil); err == nil {
		t.Error("a model without a name was opened")
	}
}
