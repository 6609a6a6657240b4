package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/golden"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

var rewriting = golden.Flag()

func TestMain(m *testing.M) { natstest.Main(m) }

// matches compares got with a file of testdata.
func matches(t *testing.T, name, got string) {
	t.Helper()
	golden.Check(t, *rewriting, filepath.Join("testdata", name), got)
}

// deployment is an embedded server with a provisioned cell.
type deployment struct {
	t    *testing.T
	url  string
	nc   *nats.Conn
	cell *jetstream.Cell
}

func deploy(t *testing.T) *deployment {
	t.Helper()
	s := natstest.Serve(t)
	cell, nc := clitest.Open(t, s.ClientURL())
	if err := admin.Of(cell).Provision(t.Context(), admin.Config{Memory: true}); err != nil {
		t.Fatal(err)
	}
	return &deployment{t: t, url: s.ClientURL(), nc: nc, cell: cell}
}

// observe runs the program and returns what it prints, with the server's address
// replaced.
func (d *deployment) observe(args ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	code, stdout, stderr = observe(d.t.Context(), nil, append(args, "--server", d.url)...)
	return code, strings.ReplaceAll(stdout, d.url, "SERVER"), strings.ReplaceAll(stderr, d.url, "SERVER")
}

func observe(ctx context.Context, in io.Reader, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	root := newRootCommand(clitest.NoEnv)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(&out)
	root.SetErr(&errs)
	return cli.Execute(ctx, root), out.String(), errs.String()
}

// writer is a driver for tests: what the core decides goes into the journal, with
// commands a second apart.
type writer struct {
	t       testing.TB
	journal journal.Journal
	state   *loop.State
	head    journal.Head
	sent    int
}

func (d *deployment) session(s content.SessionID) *writer {
	d.t.Helper()
	return d.open(s, commands.OpenSession{Config: events.Config{Model: "demo"}, Transcript: []content.Item{content.SystemText("Be brief.")}})
}

func (d *deployment) open(s content.SessionID, open commands.OpenSession) *writer {
	d.t.Helper()
	w := &writer{t: d.t, journal: d.cell.Journal(), state: loop.New(s)}
	w.do(commands.Claim{Node: "n1", Key: d.cell.Key().ID()})
	w.do(open)
	return w
}

func (w *writer) do(c commands.Command) {
	w.t.Helper()
	w.sent++
	env := commands.Envelope{
		ID: fmt.Sprintf("cmd-%d", w.sent), Session: w.state.Session, By: "ada", Command: c,
		At: content.TimeOf(time.Date(2026, 1, 2, 3, 4, w.sent, 0, time.UTC)),
	}
	evs, err := loop.Decide(w.state, env)
	if err != nil || len(evs) == 0 {
		w.t.Fatalf("%s led to %v, %v", commands.NameOf(c), evs, err)
	}
	epoch := w.state.Epoch
	if claim, ok := evs[0].(events.DriverClaimed); ok {
		epoch = claim.Epoch
	}
	w.append(events.Entry{Session: w.state.Session, Cause: env.ID, At: env.At, Epoch: epoch, Events: evs})
}

// append writes an entry, whatever the core says.
func (w *writer) append(e events.Entry) {
	w.t.Helper()
	e, _, _, err := journal.Link(w.head, e)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.head, err = w.journal.Append(w.t.Context(), w.head, e); err != nil {
		w.t.Fatal(err)
	}
	w.state.Fold(e)
}

// turn is a question, a call that answers it, and the reply.
func (w *writer) turn() *writer {
	w.t.Helper()
	w.do(commands.SubmitInput{Items: []content.Item{content.UserText("What is in main.go?")}})
	call := content.ToolCall{ID: "c1", Name: "fs_read_file", Input: []byte(`{"path":"main.go"}`)}
	w.reply([]content.Routing{{Known: true, Source: "w1", Queue: "default", Effects: content.ReadOnly}},
		content.TextPart("I will look."), content.CallPart(call))
	place := w.state.Turn.Calls[0].Place
	w.do(commands.ReportPreflight{Turn: "turn-1", Round: 1, Checks: []commands.Check{{Place: place}}})
	w.do(commands.ReportResult{Place: place, Attempt: 1, Queue: "default", Outcome: resultOf("c1", "fs_read_file", "package main\n\nfunc main() {}\n")})
	w.reply(nil, content.TextPart("A main function that does nothing."))
	return w
}

func resultOf(id content.CallID, name, text string) tool.Result {
	return tool.Result{Result: content.NewResult(id, name, content.StatusOK, text), Duration: 12 * time.Millisecond}
}

func (w *writer) reply(routing []content.Routing, parts ...content.Part) {
	w.t.Helper()
	turn := w.state.Turn
	w.do(commands.ReportReply{
		ModelCall: commands.ModelCall{Turn: turn.ID, Round: turn.Round, Attempt: turn.Attempt},
		Items:     []content.Item{content.NewItem(content.Assistant, parts...)}, Routing: routing,
		Usage: content.Usage{InputTokens: 100, OutputTokens: 20}, Model: "demo",
	})
}

// tail runs a tail in the background.
func (d *deployment) tail(args ...string) (shown *clitest.Screen, stop func() int) {
	d.t.Helper()
	return d.run("tail", append([]string{"--log-level", "error"}, args...)...)
}

// run runs a command of the program in the background. stop ends it and returns its exit code.
func (d *deployment) run(command string, args ...string) (shown *clitest.Screen, stop func() int) {
	d.t.Helper()
	ctx, cancel := context.WithCancelCause(d.t.Context())
	shown = clitest.NewScreen()
	root := newRootCommand(clitest.NoEnv)
	root.SetArgs(append([]string{command, "--server", d.url}, args...))
	root.SetOut(shown)
	root.SetErr(shown)
	ended := make(chan int, 1)
	go func() { ended <- cli.Execute(ctx, root) }()
	d.t.Cleanup(func() {
		cancel(nil)
		if d.t.Failed() {
			d.t.Logf("%s %q showed:\n%s", command, args, shown)
		}
	})
	return shown, func() int {
		cancel(&cli.Interrupted{Signal: os.Interrupt})
		select {
		case code := <-ended:
			return code
		case <-time.After(clitest.Patience):
			d.t.Fatal(command + " does not end")
			return 0
		}
	}
}
