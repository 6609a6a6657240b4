package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/trials"
	"github.com/turnlog/turnlog/session"
)

// TestAllSessionsSurviveTheirNode ends a node while models stream, tools run in the
// foreground and in the background, and approvals are open. Every session continues.
func TestAllSessionsSurviveTheirNode(t *testing.T) {
	for _, w := range waysToEnd() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			newFailover(t, w.sessions).survive(w)
		})
	}
}

// BenchmarkFailover measures how long 200 sessions have no driver.
func BenchmarkFailover(b *testing.B) {
	for _, w := range waysToEnd() {
		b.Run(w.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				took = append(took, newFailover(b, 200).survive(w)...)
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds(), "s/median")
			b.ReportMetric(took[len(took)*99/100].Seconds(), "s/p99")
			b.ReportMetric(took[len(took)-1].Seconds(), "s/max")
		})
	}
}

// wayToEnd is how a node ends.
type wayToEnd struct {
	name     string
	sessions int // of the test
	end      func(*process)
	after    func(*process) // when other nodes have its sessions
}

func waysToEnd() []wayToEnd {
	nothing := func(*process) {}
	return []wayToEnd{
		{"killed", 40, (*process).kill, nothing},
		{"drained", 16, func(p *process) { p.signal(syscall.SIGTERM) }, nothing},
		// When it resumes, it assumes that it still owns all of them.
		{"frozen", 16, func(p *process) { p.signal(syscall.SIGSTOP) }, func(p *process) { p.signal(syscall.SIGCONT) }},
	}
}

// doing is the work of a session when its node ends.
type doing struct {
	name   string
	prompt string
	rules  []events.Rule
	routes []events.RouteRule
	busy   func(events.Event) bool // matches the last event before that work
	turns  int
}

// allDoing lists the kinds of work.
func allDoing() []doing {
	running := func(ev events.Event) bool { _, ok := ev.(events.ToolDispatched); return ok }
	return []doing{
		{name: "model", prompt: promptStream, turns: 1, busy: func(ev events.Event) bool { _, ok := ev.(events.ModelCallStarted); return ok }},
		{name: "tool", prompt: promptTool, turns: 1, busy: running},
		{
			name: "approval", prompt: promptTool, turns: 1, rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}},
			busy: func(ev events.Event) bool { _, ok := ev.(events.ApprovalRequired); return ok },
		},
		{name: "background", prompt: promptTool, turns: 2, routes: []events.RouteRule{{Tool: "*", Route: content.Background}}, busy: running},
	}
}

// failover is a deployment with one node that drives all sessions.
type failover struct {
	*deployment
	ctx      context.Context //nolint:containedctx // the test's
	first    *process
	provider *provider
	pipe     string // the tools read from it
	sessions map[content.SessionID]doing
	opened   []*session.Session
}

func newFailover(tb testing.TB, sessions int) *failover {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience) // for many sessions
	tb.Cleanup(cancel)
	root := tb.TempDir()
	f := &failover{
		deployment: deploy(tb), ctx: ctx, provider: newProvider(tb),
		pipe: filepath.Join(root, "pipe"), sessions: make(map[content.SessionID]doing),
	}
	f.env = f.provider.env()
	if err := syscall.Mkfifo(f.pipe, 0o600); err != nil {
		tb.Fatal(err)
	}
	f.start("tool-worker", "--server", "nats://"+f.addr, "--tools", "shell", "--root", root, "--slots", strconv.Itoa(sessions), "--timeout", "10m")
	view, err := f.cell.Catalog().Watch(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	defer view.Close()
	f.eventually("the worker offers its tools", func(context.Context) bool { return len(view.Snapshot()) == 1 })
	f.first = f.node("first", "--idle", "10m")
	c, err := client.Open(f.nc, "")
	if err != nil {
		tb.Fatal(err)
	}
	kinds := allDoing()
	for i := range sessions {
		k := kinds[i%len(kinds)]
		s, err := c.Start(ctx, client.Options{
			ID:     content.SessionID(fmt.Sprintf("%s-%d", k.name, i)),
			Config: events.Config{Model: "openai:slow?api=chat", Rules: k.rules, Routes: k.routes},
			Input:  []content.Item{content.UserText(k.prompt)},
		})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = s.Close(tb.Context()) })
		f.sessions[s.ID()], f.opened = k, append(f.opened, s)
	}
	for id, k := range f.sessions {
		f.until(ctx, id, k.busy)
	}
	return f
}

// survive ends the node, checks that all sessions finish on other nodes, and returns how
// long each had no driver.
func (f *failover) survive(way wayToEnd) []time.Duration {
	f.t.Helper()
	f.node("second")
	f.node("third")
	records := f.cell.Nodes()
	f.eventually("the others are there", func(ctx context.Context) bool {
		all, err := records.List(ctx)
		return err == nil && len(all) == 3
	})
	ended := content.TimeOf(time.Now())
	way.end(f.first)
	var took []time.Duration
	for id := range f.sessions {
		took = append(took, f.claimed(id).Sub(ended))
	}
	way.after(f.first)
	f.finish(way.name == "killed")
	if aside, err := trials.Of(f.cell).Aside(f.ctx); err != nil || len(aside) > 0 {
		f.t.Errorf("set aside: %+v, %v", aside, err)
	}
	return took
}

// finish lets models and tools finish, and checks the journals. A model call that died
// with its node must be on record as lost.
func (f *failover) finish(killed bool) {
	f.t.Helper()
	f.provider.release()
	group, ctx := errgroup.WithContext(f.ctx)
	letting, done := context.WithCancel(ctx)
	group.Go(func() error { return f.letThrough(letting) })
	for _, s := range f.opened {
		if f.sessions[s.ID()].rules != nil {
			if err := s.ResolveApproval(f.ctx, session.Decision{Approve: true}); err != nil {
				f.t.Errorf("approve in %s: %v", s.ID(), err)
			}
		}
	}
	for id, k := range f.sessions {
		ended, lost := 0, false
		f.until(f.ctx, id, func(ev events.Event) bool {
			if r, ok := ev.(events.ToolResultReceived); ok && r.Result.Status != content.StatusOK {
				f.t.Errorf("%s: a call ended with %s", id, r.Result.Status)
			}
			if m, ok := ev.(events.ModelCallFailed); ok && m.Class == content.ClassLost {
				lost = true
			}
			if ends(ev) {
				ended++
			}
			return ended == k.turns
		})
		if killed && k.name == "model" && !lost {
			f.t.Errorf("%s: the lost model call is not on record", id)
		}
		f.audit(id)
	}
	done()
	if err := group.Wait(); err != nil {
		f.t.Error(err)
	}
}

// claimed returns when another node claimed the session, or when it was parked: a parked
// session needs no driver until an approval is resolved.
func (f *failover) claimed(id content.SessionID) content.Time {
	f.t.Helper()
	for rec, err := range f.cell.Journal().Follow(f.ctx, id, 0) {
		if err != nil {
			f.t.Fatalf("%s: %v", id, err)
		}
		for _, ev := range rec.Entry.Events {
			c, claim := ev.(events.DriverClaimed)
			if _, parked := ev.(events.Parked); parked || claim && c.Node != "first" {
				return rec.Entry.At
			}
		}
	}
	f.t.Fatalf("%s was never taken over: %v", id, context.Cause(f.ctx))
	return 0
}

// letThrough repeatedly opens and closes the pipe until ctx ends, which ends the reading tools.
func (f *failover) letThrough(ctx context.Context) error {
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		pipe, err := os.OpenFile(f.pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			err = pipe.Close()
		}
		if err != nil && !errors.Is(err, syscall.ENXIO) { // no tool waits
			return fmt.Errorf("open the pipe: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return nil
		}
	}
}

func (f *failover) audit(id content.SessionID) {
	f.t.Helper()
	report, err := audit.Verify(f.cell.Journal().Read(f.ctx, id, 0))
	if err != nil {
		f.t.Fatal(err)
	}
	if v, broken := report.First(); broken {
		f.t.Errorf("%s: %+v", id, v)
	}
}
