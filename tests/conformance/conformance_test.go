package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/journal"
)

func TestMain(m *testing.M) {
	embedded.PrepareForSynctest()
	os.Exit(m.Run())
}

// session is what all shapes have in common.
type session interface {
	Next(ctx context.Context) (agent.Step, error)
	Submit(ctx context.Context, b events.OnBusy, items ...content.Item) error
	Cancel(ctx context.Context, reason string) error
	Resolve(ctx context.Context, call content.CallID, v agent.Decision, patch []byte) error
	Transcript() []content.Item
	Journal() journal.Journal
}

// shape is a way to run a session.
type shape struct {
	name string
	open func(t *testing.T, ctx context.Context, sc *scenario, w *workshop) session
}

const id content.SessionID = "s"

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, sc := range load(t) {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			for _, sh := range shapes() {
				if sc.NotIn[sh.name] != "" {
					continue
				}
				t.Run(sh.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						records := run(t, sc, sh, false)
						if sc.Ran != nil {
							t.Logf("%d entries", len(records))
						}
					})
				})
			}
			if sc.NotIn["crash"] == "" && sc.NotIn["deployment"] == "" {
				crashes(t, sc)
			}
		})
	}
}

// crashes lets the node die behind each append in turn, until there is none left
// to die behind.
func crashes(t *testing.T, sc *scenario) {
	t.Helper()
	for n, died := 1, true; died; n++ {
		died = false
		t.Run(fmt.Sprintf("crash behind append %d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sh := crashing(n, &died)
				run(t, sc, sh, true)
			})
		})
	}
}

// run plays a scenario and checks what remains. Where a node died, a tool may have
// begun more often than a scenario says, but only one that says so of itself.
func run(t *testing.T, sc *scenario, sh shape, crash bool) []journal.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	w := newWorkshop(sc)
	p := &player{t: t, ctx: ctx, session: sh.open(t, ctx, sc, w)}
	for i, st := range sc.Steps {
		p.at = fmt.Sprintf("step %d", i+1)
		p.play(st)
		if t.Failed() {
			break
		}
	}
	records := p.records()
	if diff := cmp.Diff(sc.Transcript, lines(p.Transcript())); diff != "" {
		t.Errorf("transcript, -want +got:\n%s", diff)
	}
	if bad := audit.Check(records); len(bad) > 0 {
		t.Errorf("audit: %v", bad)
	}
	checkKinds(t, sc, records, crash)
	checkRan(t, sc, w.ran(), crash)
	if t.Failed() {
		for _, rec := range records {
			t.Logf("%d %s: %v", rec.Seq, rec.Entry.Cause, rec.Entry.Kinds())
		}
	}
	return records
}

func checkKinds(t *testing.T, sc *scenario, records []journal.Record, crash bool) {
	t.Helper()
	want := sc.Kinds
	for _, rec := range records {
		for _, k := range rec.Entry.Kinds() {
			if slices.Contains(sc.Never, k) {
				t.Errorf("entry %d holds %s, which must not occur", rec.Seq, k)
			}
			if len(want) > 0 && k == want[0] {
				want = want[1:]
			}
		}
	}
	if len(want) > 0 && !crash {
		t.Errorf("the journal lacks %v at the end of %v", want, sc.Kinds)
	}
}

func checkRan(t *testing.T, sc *scenario, ran map[string]int, crash bool) {
	t.Helper()
	if !crash && sc.Ran != nil {
		if diff := cmp.Diff(sc.Ran, ran); diff != "" {
			t.Errorf("tools that began, -want +got:\n%s", diff)
		}
	}
	for _, s := range sc.Tools {
		if limit, known := sc.Ran[s.Name]; crash && known && !s.Effects.Retryable() && ran[s.Name] > limit {
			t.Errorf("%s began %d times, and it may not be run again", s.Name, ran[s.Name])
		}
	}
}

// player is the host of a scenario.
type player struct {
	session
	t    *testing.T
	ctx  context.Context //nolint:containedctx // the run's
	at   string
	last agent.Step
}

func (p *player) play(st step) {
	p.t.Helper()
	switch {
	case st.Submit != "":
		p.act(act{Submit: st.Submit, OnBusy: st.OnBusy})
	case st.Act != nil:
		p.act(*st.Act)
	case st.Wait > 0:
		<-time.After(st.Wait)
	default:
		p.next(st)
	}
}

func (p *player) next(st step) {
	p.t.Helper()
	done := make(chan struct{})
	if st.Do != nil {
		go func() {
			defer close(done)
			p.until(st.When)
			p.act(*st.Do)
		}()
	} else {
		close(done)
	}
	got, err := p.Next(p.ctx)
	<-done
	p.last = got
	if said := describe(got, err); said != st.Next && !strings.HasPrefix(said, st.Next+":") && (err == nil || !strings.HasPrefix(said, st.Next)) {
		p.t.Errorf("%s: Next = %s, want %s", p.at, said, st.Next)
	}
}

// describe says what Next returned, in the words of scenarios.
func describe(st agent.Step, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	switch st := st.(type) {
	case *agent.AwaitingInput:
		return "awaiting_input"
	case *agent.AfterToolResult:
		return "after_tool_result"
	case *agent.ApprovalRequest:
		return "approval " + st.Tool
	case *agent.Finished:
		said := "finished " + string(st.Result.FinishReason)
		if text := st.Result.Text(); text != "" {
			said += ": " + text
		}
		return said
	}
	return fmt.Sprintf("%T", st)
}

// until waits for an event in the journal.
func (p *player) until(k events.Kind) {
	for rec, err := range p.Journal().Follow(p.ctx, id, 0) {
		if err != nil {
			p.t.Errorf("%s: follow: %v", p.at, err)
			return
		}
		if slices.Contains(rec.Entry.Kinds(), k) {
			return
		}
	}
}

func (p *player) act(a act) {
	p.t.Helper()
	var err error
	switch {
	case a.Submit != "":
		err = p.Submit(p.ctx, a.OnBusy, content.UserText(a.Submit))
	case a.Cancel != "":
		err = p.Cancel(p.ctx, a.Cancel)
	case a.Approve != "":
		var patch []byte
		if a.Input != "" {
			patch = []byte(a.Input)
		}
		err = p.Resolve(p.ctx, p.call(a.Approve), agent.Decision{Approve: true, By: "tester"}, patch)
	case a.Deny != "":
		err = p.Resolve(p.ctx, p.call(a.Deny), agent.Decision{Reason: a.Reason, By: "tester"}, nil)
	}
	if code := refusal(err); code != a.Refused {
		p.t.Errorf("%s: %+v = %v, want it refused as %q", p.at, a, err, a.Refused)
	}
}

// refusal is the code with which something was turned down.
func refusal(err error) string {
	if state, ok := errors.AsType[*agent.InvalidStateError](err); ok {
		return state.Reason
	}
	if refused, ok := errors.AsType[*client.RefusedError](err); ok {
		return refused.Reason
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// call finds the last call of a tool.
func (p *player) call(name string) content.CallID {
	var found content.CallID
	for _, rec := range p.records() {
		for _, ev := range rec.Entry.Events {
			if r, ok := ev.(events.ToolCallRequested); ok && r.Call.Name == name {
				found = r.Call.ID
			}
		}
	}
	return found
}

func (p *player) records() []journal.Record {
	p.t.Helper()
	var out []journal.Record
	for rec, err := range p.Journal().Read(p.ctx, id, 0) {
		if err != nil {
			p.t.Fatalf("read the journal: %v", err)
		}
		out = append(out, rec)
	}
	return out
}
