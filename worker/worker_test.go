package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

const lease = 30 * time.Second

// bench is a deployment with workers and no node, which records what the workers report. Its
// methods are safe for concurrent use.
type bench struct {
	*turnlogtest.Deployment

	mu      sync.Mutex
	reports []task.Report
	refuse  int // how many reports fail
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{Deployment: turnlogtest.Empty(t.Context(), t, turnlogtest.Lease(lease))}
}

// queue returns a worker's side of the queue, over a connection of its own.
func (b *bench) queue(t *testing.T) task.Queue {
	t.Helper()
	q, err := b.Open(b.Connect()).Queue(b.Ctx, turnlogtest.Queue)
	if err != nil {
		t.Fatal(err)
	}
	return recording{q, b}
}

// recording is a queue whose claims report to a bench.
type recording struct {
	task.Queue
	bench *bench
}

func (q recording) Claim(ctx context.Context) (task.Claim, error) {
	c, err := q.Queue.Claim(ctx)
	if err != nil {
		return nil, err
	}
	return recordingClaim{c, q.bench}, nil
}

type recordingClaim struct {
	task.Claim
	bench *bench
}

func (c recordingClaim) Report(ctx context.Context, r task.Report) error {
	c.bench.mu.Lock()
	defer c.bench.mu.Unlock()
	if c.bench.refuse > 0 {
		c.bench.refuse--
		return errors.New("inbox does not answer")
	}
	c.bench.reports = append(c.bench.reports, r)
	return c.Claim.Report(ctx, r)
}

func (b *bench) all() []task.Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.reports)
}

// only returns the only report.
func (b *bench) only(t *testing.T) task.Report {
	t.Helper()
	all := b.all()
	if len(all) != 1 {
		t.Fatalf("%d reports, want 1: %+v", len(all), all)
	}
	return all[0]
}

// dispatch queues a call of a tool at a place of its own.
func (b *bench) dispatch(t *testing.T, name string, edit ...func(*task.Task)) task.Task {
	t.Helper()
	x := task.Task{
		Session: "s1", Turn: "turn-1", Call: "call-1", Place: "t1-r1-c1", Attempt: 1, Queue: turnlogtest.Queue, Tool: name,
		Input: json.RawMessage(`{}`), IdempotencyKey: "s1/t1-r1-c1",
	}
	for _, e := range edit {
		e(&x)
	}
	if err := b.Cell.Tasks().Dispatch(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	return x
}

func (b *bench) queued(t *testing.T, x task.Task) bool {
	t.Helper()
	queued, err := b.Cell.Tasks().Queued(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	return queued
}

func readOnly(x *task.Task) { x.Effects = content.ReadOnly }

func place(p content.Place) func(*task.Task) {
	return func(x *task.Task) { x.Place, x.Call = p, content.CallID(p) }
}

// fake is a tool with the function of a test.
type fake struct {
	spec tool.Spec
	call func(ctx context.Context, c tool.Call) (tool.Output, error)
}

func (f fake) Spec() tool.Spec { return f.spec }

func (f fake) Call(ctx context.Context, c tool.Call) (tool.Output, error) { return f.call(ctx, c) }

func named(name string, call func(ctx context.Context, c tool.Call) (tool.Output, error)) fake {
	return fake{spec: tool.Spec{Name: name, Description: "For tests."}, call: call}
}

// echo returns at once.
func echo() fake {
	return named("echo", func(_ context.Context, c tool.Call) (tool.Output, error) {
		return tool.Text("heard " + string(c.Place)), nil
	})
}

// takes returns a tool that runs for some time, or until its context ends.
func takes(name string, d time.Duration) fake {
	return named(name, func(ctx context.Context, _ tool.Call) (tool.Output, error) {
		select {
		case <-time.After(d):
			return tool.Text("done"), nil
		case <-ctx.Done():
			return tool.Output{}, context.Cause(ctx)
		}
	})
}

// running is a worker in the background.
type running struct {
	*worker.Worker
	stop  context.CancelFunc
	ended chan error
}

// start runs a worker with some tools until the test ends.
func (b *bench) start(t *testing.T, cfg worker.Config, tools ...tool.Tool) *running {
	t.Helper()
	r, err := tool.NewRegistry("test", tools...)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Queue == nil {
		cfg.Queue = b.queue(t)
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.Slots == 0 {
		cfg.Slots = 4
	}
	cfg.Tools = append(cfg.Tools, r)
	w, err := worker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	run := &running{Worker: w, stop: stop, ended: make(chan error, 1)}
	go func() { run.ended <- w.Run(ctx) }()
	t.Cleanup(stop)
	return run
}

// end stops the worker and returns how long that took.
func (r *running) end(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Fatalf("Run = %v, want nil", err)
	}
	return time.Since(start)
}

func wantOutcome(t *testing.T, r task.Report, s content.Status, text string) {
	t.Helper()
	if got := r.Outcome.Result; r.Lost || got.Status != s || !strings.Contains(got.Text(), text) {
		t.Fatalf("report = lost %v, %s %q, want %s with %q", r.Lost, got.Status, got.Text(), s, text)
	}
}

// pass waits in virtual time.
func pass(d time.Duration) { <-time.After(d) }
