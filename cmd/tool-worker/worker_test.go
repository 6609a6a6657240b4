package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/internal/testing/parallel"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// TestMain runs more tests at once than there are CPUs: most of them wait for a worker.
func TestMain(m *testing.M) {
	parallel.Tests(8)
	natstest.Main(m)
}

// execute runs the program to its end.
func execute(ctx context.Context, args ...string) (code int, printed string) {
	out := clitest.NewScreen()
	root := newRootCommand(out, clitest.NoEnv)
	root.SetArgs(args)
	root.SetOut(out)
	return cli.Execute(ctx, root), out.String()
}

// deployment is an empty embedded server, and a cell on it for the test.
type deployment struct {
	t    *testing.T
	url  string
	cell *jetstream.Cell
}

func deploy(t *testing.T) *deployment {
	t.Helper()
	s := natstest.Serve(t)
	cell, _ := clitest.Open(t, s.ClientURL())
	return &deployment{t: t, url: s.ClientURL(), cell: cell}
}

// process is the program in the background.
type process struct {
	d     *deployment
	log   *clitest.Screen
	stop  func()
	ended chan int
}

// start runs the program and waits until its tools are on offer.
func (d *deployment) start(args ...string) *process {
	d.t.Helper()
	ctx, cancel := context.WithCancelCause(d.t.Context())
	w := &process{d: d, log: clitest.NewScreen(), ended: make(chan int, 1)}
	w.stop = func() { cancel(&cli.Interrupted{Signal: os.Interrupt}) }
	d.t.Cleanup(w.stop)
	root := newRootCommand(w.log, clitest.NoEnv)
	root.SetArgs(append(args, "--server", d.url, "--log-format", "json", "--log-level", "debug"))
	go func() { w.ended <- cli.Execute(ctx, root) }()
	d.t.Cleanup(func() {
		if d.t.Failed() {
			d.t.Logf("%v printed:\n%s", args, w.log)
		}
	})
	d.eventually("the worker runs", func(context.Context) bool { return strings.Contains(w.log.String(), "worker started") })
	d.eventually("its tools are on offer", func(ctx context.Context) bool {
		all, err := d.offers(ctx)
		return err == nil && len(all) > 0
	})
	return w
}

// end stops the program as a signal does.
func (w *process) end() {
	w.d.t.Helper()
	w.stop()
	select {
	case code := <-w.ended:
		if code != 0 {
			w.d.t.Errorf("exit code %d:\n%s", code, w.log)
		}
	case <-time.After(clitest.Patience):
		w.d.t.Fatalf("the worker does not end:\n%s", w.log)
	}
}

// line returns the fields of the first log line with a message.
func (w *process) line(msg string) map[string]any {
	w.d.t.Helper()
	for text := range strings.Lines(w.log.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(text), &fields) == nil && fields["msg"] == msg {
			return fields
		}
	}
	w.d.t.Fatalf("%q is not logged:\n%s", msg, w.log)
	return nil
}

func (d *deployment) eventually(what string, ok func(context.Context) bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), clitest.Patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond) // a look may read a whole catalog
	defer tick.Stop()
	for !ok(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			d.t.Fatalf("%s: not in time", what)
		}
	}
}

// offers is what the catalog holds.
func (d *deployment) offers(ctx context.Context) ([]jetstream.Offer, error) {
	view, err := d.cell.Catalog().Watch(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	return view.Snapshot(), nil
}

// offer returns the only offer.
func (d *deployment) offer() jetstream.Offer {
	d.t.Helper()
	all, err := d.offers(d.t.Context())
	if err != nil || len(all) != 1 {
		d.t.Fatalf("offers = %+v, %v, want one", all, err)
	}
	return all[0]
}

// call dispatches a call.
func (d *deployment) call(name, input string) task.Task {
	d.t.Helper()
	x := task.Task{
		Session: "s1", Turn: "turn-1", Call: "c1", Place: "t1-r1-c1", Attempt: 1, Queue: "default", Tool: name, Input: []byte(input),
	}
	if err := d.cell.Tasks().Dispatch(d.t.Context(), x); err != nil {
		d.t.Fatal(err)
	}
	return x
}

// report waits for the one report of the session.
func (d *deployment) report() commands.Command {
	d.t.Helper()
	var got []jetstream.Message
	d.eventually("a report", func(ctx context.Context) bool {
		var err error
		got, err = natstest.Collect(d.cell.Inbox().Read(ctx, "s1", nil, 0))
		return err == nil && len(got) > 0
	})
	if len(got) != 1 {
		d.t.Fatalf("%d reports, want 1", len(got))
	}
	if err := d.cell.Inbox().Open(d.t.Context(), &got[0]); err != nil {
		d.t.Fatal(err)
	}
	return got[0].Envelope.Command
}

func (d *deployment) result() tool.Result {
	d.t.Helper()
	r, ok := d.report().(commands.ReportResult)
	if !ok {
		d.t.Fatalf("report = %+v, want a result", d.report())
	}
	return r.Outcome
}

func TestWorkerServesADeployment(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "hello.txt"), []byte("hello, world"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := deploy(t)
	w := d.start("--root", root, "--name", "w1", "--slots", "2")
	if o := d.offer(); o.Worker != "w1" || o.Queue != "default" || len(o.Tools) < 4 {
		t.Errorf("offer = %+v", o)
	}
	x := d.call("fs_read_file", `{"path":"hello.txt"}`)
	if r := d.result().Result; r.Status != content.StatusOK || !strings.Contains(r.Text(), "hello, world") {
		t.Errorf("result = %+v", r)
	}
	d.eventually("the task is off its queue", func(ctx context.Context) bool {
		queued, err := d.cell.Tasks().Queued(ctx, x)
		return err == nil && !queued
	})
	w.end()
	if left, err := d.offers(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("its tools are still on offer: %+v, %v", left, err)
	}
	cfg := w.line("configuration")
	if cfg["root"] != root || cfg["queue"] != "default" || cfg["name"] != "w1" || cfg["slots"] != 2.0 || cfg["allow_write"] != false {
		t.Errorf("configuration = %v", cfg)
	}
	w.line("cell provisioned")
	w.line("worker stopped")
}

func TestAWorkerCreatesItsQueue(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.start("--queue", "gpu", "--root", t.TempDir())
	w.end()
	again := d.start("--queue", "gpu", "--root", t.TempDir()) // it is there now
	if o := d.offer(); o.Queue != "gpu" {
		t.Errorf("offer = %+v", o)
	}
	again.end()
}

func TestCancelReachesTheCommand(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	root := t.TempDir()
	w := d.start("--tools", "fs,shell", "--root", root)
	x := d.call("shell_exec", `{"script":"touch began; sleep 100"}`)
	d.eventually("the command runs", func(context.Context) bool {
		_, err := os.Stat(filepath.Join(root, "began"))
		return err == nil
	})
	start := time.Now()
	if err := d.cell.Tasks().Cancel(t.Context(), x.Queue, x.Session, x.Place, "user_cancelled"); err != nil {
		t.Fatal(err)
	}
	if r := d.result().Result; r.Status != content.StatusCancelled {
		t.Errorf("result = %+v", r)
	}
	if waited := time.Since(start); waited > 30*time.Second {
		t.Errorf("the cancel took %v", waited)
	}
	w.end()
}

func TestAStoppedWorkerReturnsItsCalls(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	root := t.TempDir()
	w := d.start("--tools", "shell", "--root", root, "--drain", "50ms")
	d.call("shell_exec", `{"script":"touch began; sleep 100"}`)
	d.eventually("the command runs", func(context.Context) bool {
		_, err := os.Stat(filepath.Join(root, "began"))
		return err == nil
	})
	w.end()
	if r, ok := d.report().(commands.ReportAttemptLost); !ok || r.Attempt != 1 || r.Reason == "" {
		t.Errorf("report = %+v, want the loss of the attempt", d.report())
	}
}

func TestEndpointsReportHealthAndMetrics(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.start("--root", t.TempDir(), "--http", "127.0.0.1:0")
	address, _ := w.line("http endpoints served")["address"].(string)
	d.call("fs_list_directory", `{}`)
	d.result()
	clitest.AwaitPage(t, "http://"+address+"/healthz", "ok\n")
	clitest.AwaitPage(t, "http://"+address+"/readyz", "ok\n")
	for _, want := range []string{
		"claims_total 1", "redeliveries_total 0", `claims_settled_total{fate="reported"} 1`, `claims_settled_total{fate="lost"} 0`,
		`calls_total{status="ok",tool="fs_list_directory"} 1`, `running_calls{tool="fs_list_directory"} 0`,
		`call_duration_seconds_count{tool="fs_list_directory"} 1`,
	} {
		clitest.AwaitPage(t, "http://"+address+"/metrics", "turnlog_worker_"+want+"\n")
	}
	if diff := cmp.Diff([]string{
		"turnlog_worker_call_duration_seconds histogram", "turnlog_worker_calls_total counter",
		"turnlog_worker_claims_settled_total counter", "turnlog_worker_claims_total counter", "turnlog_worker_forged_tasks_total counter",
		"turnlog_worker_redeliveries_total counter", "turnlog_worker_running_calls gauge",
	}, clitest.Metrics(t, "http://"+address+"/metrics")); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	w.end()
}
