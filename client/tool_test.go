package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/effect"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/journal"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// child is the session of the first call of session s.
const child content.SessionID = "s-t1-r1-c1"

const delegating = `
replies:
  - calls: [{name: helper, input: {prompt: help}}]
  - text: "{{(index .Results 0).Text}}"
`

// shop is a deployment with workers that offer a sub-agent, and a tool for it.
type shop struct {
	*world
	script string
	change func(*events.Config)
	opts   []tool.Option
	echoes int
}

func newShop(t *testing.T, script string) *shop {
	t.Helper()
	s := &shop{world: newWorld(t), script: script}
	cfg := jetstream.Config{Memory: true, Queues: []jetstream.QueueConfig{{Name: "q", AckWait: 5 * time.Second}}}
	if err := s.cell.Provision(s.ctx, cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// offers puts a worker's tools into the catalog.
type offers struct {
	catalog *jetstream.Catalog
	name    string
}

func (o offers) Advertise(ctx context.Context, tools []tool.Spec) error {
	return o.catalog.Advertise(ctx, jetstream.Offer{Worker: o.name, Queue: "q", Tools: tools})
}

func (o offers) Withdraw(ctx context.Context) error { return o.catalog.Withdraw(ctx, o.name) }

// staff is a running worker with its client.
type staff struct {
	nc    *nats.Conn
	stop  context.CancelFunc
	ended chan error
	tends chan error
}

// work runs a worker, and what it runs beside it.
func (s *shop) work(name string) *staff {
	s.t.Helper()
	cell, nc := s.open()
	c, err := client.Open(nc, "", client.WithLogger(zaptest.NewLogger(s.t)))
	if err != nil {
		s.t.Fatal(err)
	}
	o := client.Options{Config: events.Config{Model: "scripted:child", ModelData: []byte(s.script)}}
	if s.change != nil {
		s.change(&o.Config)
	}
	helper, err := c.Tool("helper", "Helps.", o, s.opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	echo, err := tool.Func("echo", "Echoes.", func(_ context.Context, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		s.echoes++
		return in.Text, nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	tools, err := tool.NewRegistry("own", helper, echo)
	if err != nil {
		s.t.Fatal(err)
	}
	queue, err := cell.Queue(s.ctx, "q")
	if err != nil {
		s.t.Fatal(err)
	}
	w, err := worker.New(worker.Config{
		Queue: queue, Tools: []tool.Source{tools}, Logger: zaptest.NewLogger(s.t), Offers: offers{cell.Catalog(), name},
		DrainTimeout: time.Second,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := (offers{cell.Catalog(), name}).Advertise(s.ctx, []tool.Spec{helper.Spec(), echo.Spec()}); err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.ctx)
	f := &staff{nc: nc, stop: stop, ended: make(chan error, 1), tends: make(chan error, 1)}
	go func() { f.ended <- w.Run(ctx) }()
	go func() { f.tends <- c.Tend(ctx) }()
	return f
}

// leave ends the worker in good order.
func (f *staff) leave(t *testing.T) {
	t.Helper()
	f.stop()
	if err := errors.Join(<-f.ended, <-f.tends); err != nil {
		t.Errorf("worker: %v", err)
	}
}

// crash cuts the worker off.
func (f *staff) crash() {
	f.nc.Close()
	f.stop()
	_, _ = <-f.ended, <-f.tends
}

// begin starts the calling session with a turn.
func (s *shop) begin() *client.Session {
	s.t.Helper()
	x := s.start("s", delegating, false, nil)
	s.t.Cleanup(x.Close)
	if err := x.Submit(s.ctx, "", content.UserText("go")); err != nil {
		s.t.Fatal(err)
	}
	return x
}

// until follows a journal up to an event.
func (s *shop) until(id content.SessionID, k events.Kind) {
	s.t.Helper()
	for rec, err := range s.cell.Journal().Follow(s.ctx, id, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		if slices.Contains(rec.Entry.Kinds(), k) {
			return
		}
	}
}

// facts reads a journal and has it audited.
func facts[E events.Event](s *shop, id content.SessionID) (out []E) {
	s.t.Helper()
	var all []journal.Record
	for rec, err := range s.cell.Journal().Read(s.ctx, id, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, rec)
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(E); ok {
				out = append(out, e)
			}
		}
	}
	if bad := audit.Check(all); len(bad) > 0 {
		s.t.Errorf("audit of %s: %v", id, bad)
	}
	return out
}

// result is what the calling session's only call came to.
func (s *shop) result() events.ToolResultReceived {
	s.t.Helper()
	all := facts[events.ToolResultReceived](s, "s")
	if len(all) != 1 {
		s.t.Fatalf("%d results, want one", len(all))
	}
	return all[0]
}

// ended waits for the end of the sub-agent's turn and says how it was.
func (s *shop) ended() content.FinishReason {
	s.t.Helper()
	s.until(child, events.KindTurnFinished)
	all := facts[events.TurnFinished](s, child)
	if len(all) != 1 {
		s.t.Fatalf("%d turns ended, want one", len(all))
	}
	return all[0].FinishReason
}

func TestASubAgentAnswersItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, "replies:\n  - text: 'done: {{.Prompt}}'\n    usage: {input: 40, output: 2}\n    delay: 10m\n")
		defer s.drive(effect.Config{})()
		defer s.work("w1").leave(t)
		x := s.begin()
		fin := next[*agent.Finished](s.world, x).Result
		if fin.Text() != "done: help" || fin.Usage.InputTokens != 40 || fin.Usage.OutputTokens != 2 {
			t.Errorf("turn = %q, used %+v", fin.Text(), fin.Usage)
		}
		started := facts[events.RunStarted](s, child)
		if len(started) != 1 || started[0].Parent != "s" || started[0].Metadata.Text("delegated_by") != "helper" {
			t.Errorf("the session began as %+v", started)
		}
		if got := s.ended(); got != content.Completed {
			t.Errorf("its turn ended %s", got)
		}
	})
}

const echoing = `
replies:
  - calls: [{name: echo, input: {text: hi}}]
  - text: "it said {{(index .Results 0).Text}}"
`

func asking(c *events.Config) { c.Rules = []events.Rule{{Tool: "echo", Action: events.RuleAsk}} }

func TestWhatASubAgentAsksIsAskedInTheCallingSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, echoing)
		s.change = asking
		defer s.drive(effect.Config{})()
		w := s.work("w1")
		x := s.begin()
		ask := next[*agent.ApprovalRequest](s.world, x)
		if ask.Tool != "helper" || !strings.HasPrefix(ask.Summary, "helper: ") || !strings.Contains(ask.Summary, "echo") {
			t.Errorf("approval = %+v", ask.Approval)
		}
		w.leave(t) // nothing waits in it
		<-time.After(24 * time.Minute)
		defer s.work("w2").leave(t)
		if err := ask.Approve(s.ctx); err != nil {
			t.Fatal(err)
		}
		if got := next[*agent.Finished](s.world, x).Result.Text(); got != "it said hi" || s.echoes != 1 {
			t.Errorf("answer = %q after %d runs", got, s.echoes)
		}
		if all := facts[events.ApprovalResolved](s, child); len(all) != 1 || all[0].Outcome != events.Approved {
			t.Errorf("the sub-agent's approval was settled as %+v", all)
		}
	})
}

func TestADenialReachesTheSubAgent(t *testing.T) {
	for name, lost := range map[string]bool{"its worker is there": false, "its worker was lost": true} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop(t, echoing)
			s.change = asking
			defer s.drive(effect.Config{})()
			w := s.work("w1")
			x := s.begin()
			ask := next[*agent.ApprovalRequest](s.world, x)
			if lost {
				w.crash()
			} else {
				defer w.leave(t)
			}
			if err := ask.DenyWithReason(s.ctx, "not today"); err != nil {
				t.Fatal(err)
			}
			if lost {
				defer s.work("w2").leave(t)
			}
			if got := next[*agent.Finished](s.world, x).Result.Text(); got != "Permission denied: not today" {
				t.Errorf("%s: answer = %q", name, got)
			}
			if got := s.ended(); got != content.Completed || s.echoes != 0 {
				t.Errorf("%s: the sub-agent's turn ended %s after %d runs", name, got, s.echoes)
			}
			if got := facts[events.ToolResultReceived](s, child)[0].Result.Text(); got != "Permission denied: not today" {
				t.Errorf("%s: the sub-agent was told %q", name, got)
			}
		})
	}
}

func TestACancelReachesTheSubAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, "replies:\n  - text: ok\n    delay: 30m\n")
		defer s.drive(effect.Config{})()
		defer s.work("w1").leave(t)
		x := s.begin()
		s.until(child, events.KindModelCallStarted)
		began := time.Now()
		if err := x.Cancel(s.ctx, ""); err != nil {
			t.Fatal(err)
		}
		if got := next[*agent.Finished](s.world, x).Result.FinishReason; got != content.Cancelled {
			t.Errorf("the turn ended %s", got)
		}
		if got, took := s.ended(), time.Since(began); got != content.Cancelled || took > time.Second {
			t.Errorf("the sub-agent's turn ended %s after %s", got, took)
		}
	})
}

func TestACancelReachesASubAgentThatWaitsForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, echoing)
		s.change = asking
		defer s.drive(effect.Config{})()
		defer s.work("w1").leave(t)
		x := s.begin()
		next[*agent.ApprovalRequest](s.world, x)
		if err := x.Cancel(s.ctx, ""); err != nil {
			t.Fatal(err)
		}
		if got := s.ended(); got != content.Cancelled || s.echoes != 0 {
			t.Errorf("the sub-agent's turn ended %s after %d runs", got, s.echoes)
		}
	})
}

func TestASubAgentEndsWithTheTimeOfItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, "replies:\n  - text: ok\n    delay: 30m\n")
		s.opts = []tool.Option{tool.WithSpec(func(s *tool.Spec) { s.Timeout = time.Minute })}
		defer s.drive(effect.Config{})()
		defer s.work("w1").leave(t)
		x := s.begin()
		if got := next[*agent.Finished](s.world, x).Result.Text(); got != "Tool timed out after 1m0s" {
			t.Errorf("answer = %q", got)
		}
		if got := s.ended(); got != content.Cancelled {
			t.Errorf("the sub-agent's turn ended %s", got)
		}
	})
}

func TestASubAgentOutlivesItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, "replies:\n  - text: done\n    delay: 5m\n")
		defer s.drive(effect.Config{})()
		w := s.work("w1")
		x := s.begin()
		s.until(child, events.KindModelCallStarted)
		w.crash()
		defer s.work("w2").leave(t)
		if got := next[*agent.Finished](s.world, x).Result.Text(); got != "done" {
			t.Errorf("answer = %q", got)
		}
		if n := len(facts[events.ModelCallStarted](s, child)); n != 1 {
			t.Errorf("its model was called %d times", n)
		}
		if got := s.result().Attempt; got != 1 {
			t.Errorf("the call was dispatched %d times, want once: it came to another worker", got)
		}
	})
}

func TestASubAgentOutlivesAWorkerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, "replies:\n  - text: done\n    delay: 5m\n")
		defer s.drive(effect.Config{})()
		w := s.work("w1")
		x := s.begin()
		s.until(child, events.KindModelCallStarted)
		w.leave(t)
		<-time.After(10 * time.Minute) // its turn is over before another worker comes
		defer s.work("w2").leave(t)
		if got := next[*agent.Finished](s.world, x).Result.Text(); got != "done" {
			t.Errorf("answer = %q", got)
		}
	})
}

func TestASubAgentThatFailsFailsItsCall(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		change func(*events.Config)
		want   string
	}{
		"its model":  {"replies:\n  - error: {class: auth, message: no key}\n", nil, "Tool failed: model call failed (auth): no key"},
		"its limits": {echoing, func(c *events.Config) { c.Limits.MaxRounds = 1 }, "Tool failed: max turns reached (1)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop(t, c.script)
			s.change = c.change
			defer s.drive(effect.Config{})()
			defer s.work("w1").leave(t)
			if got := next[*agent.Finished](s.world, s.begin()).Result.Text(); got != c.want {
				t.Errorf("%s: answer = %q, want %q", name, got, c.want)
			}
			if r := s.result().Result; r.Status != content.StatusError || r.Code != tool.CodeFailed {
				t.Errorf("%s: result = %+v", name, r)
			}
		})
	}
}

func TestASubAgentOfASubAgentAsksAndEndsWithTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, "replies:\n  - calls: [{name: helper, input: {prompt: deeper}}]\n  - text: '{{(index .Results 0).Text}}'\n")
		s.change = func(c *events.Config) {
			c.Rules = []events.Rule{{Tool: "helper", Action: events.RuleAsk}}
		}
		defer s.drive(effect.Config{})()
		defer s.work("w1").leave(t)
		x := s.begin()
		for range 2 { // each level asks before it goes deeper
			ask := next[*agent.ApprovalRequest](s.world, x)
			if err := ask.Approve(s.ctx); err != nil {
				t.Fatal(err)
			}
		}
		ask := next[*agent.ApprovalRequest](s.world, x)
		if !strings.HasPrefix(ask.Summary, "helper: helper: helper: ") {
			t.Errorf("the third question is %q", ask.Summary)
		}
		if err := x.Cancel(s.ctx, ""); err != nil {
			t.Fatal(err)
		}
		for _, id := range []content.SessionID{child, child + "-t1-r1-c1", child + "-t1-r1-c1-t1-r1-c1"} {
			s.until(id, events.KindTurnFinished)
			if got := facts[events.TurnFinished](s, id)[0].FinishReason; got != content.Cancelled {
				t.Errorf("the turn of %s ended %s", id, got)
			}
		}
	})
}

func TestAToolThatCannotBeASubAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		model := events.Config{Model: "scripted:x"}
		for name, o := range map[string]client.Options{
			"no model":    {},
			"an id":       {ID: "x", Config: model},
			"a parent":    {Parent: "x", Config: model},
			"input":       {Input: []content.Item{content.UserText("hi")}, Config: model},
			"in steps":    {Stepped: true, Config: model},
			"bad name":    {Config: model},
			"description": {Config: model},
		} {
			toolName, description := "helper", "Helps."
			switch name {
			case "bad name":
				toolName = "a.b"
			case "description":
				description = " "
			}
			if _, err := w.client.Tool(toolName, description, o); err == nil {
				t.Errorf("%s: there is a tool", name)
			}
		}
	})
}
