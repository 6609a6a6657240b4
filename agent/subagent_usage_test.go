package agent_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

func TestASubAgentsWorkCountsForItsCallersLimits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limits events.Limits
		want   *events.LimitReached
	}{
		"nothing is set":        {},
		"just enough":           {limits: events.Limits{Requests: 5, ToolCalls: 3}},
		"the model calls":       {events.Limits{Requests: 4}, &events.LimitReached{Kind: events.LimitRequests, Limit: 4, Used: 5, Scope: "turn"}},
		"the calls of the next": {events.Limits{ToolCalls: 3, Requests: 9}, nil},
	} {
		log := journal.NewMemory()
		c := delegating(t, agent.Config{
			Model: spending(content.Usage{InputTokens: 10}, 2), Tools: []tool.Source{echo(t)}, Journal: log,
		})
		c.Limits = tc.limits
		d := start(t, c)
		if got := step[*session.AfterToolResult](t, d).Results[0].Text(); got != "done" {
			t.Fatalf("%s: result = %q", name, got)
		}
		fin := step[*session.Finished](t, d).Result
		if (fin.Limit == nil) != (tc.want == nil) || tc.want != nil && *fin.Limit != *tc.want {
			t.Errorf("%s: the turn ended by %+v, want %+v", name, fin.Limit, tc.want)
		}
		s := d.Snapshot()
		requests := int64(5) // 3 of the sub-agent, 2 of the caller
		if tc.want != nil {
			requests = 4
		}
		if s.Requests != requests || s.ToolCalls != 3 || s.Usage.InputTokens != 30 {
			t.Errorf("%s: counted are %d requests, %d tool calls, %+v", name, s.Requests, s.ToolCalls, s.Usage)
		}
		child := recorded[events.UsageUpdated](t, log, "s")[1]
		if child.Source != "child" || child.Requests != 3 || child.ToolCalls != 2 {
			t.Errorf("%s: recorded is %+v", name, child)
		}
	}
}

// halfDone is a model that calls a tool and then works on its answer until it is stopped.
// Both use tokens.
func halfDone() model.Model {
	first := true
	return modeltest.NewFake("half", func(ctx context.Context, _ model.Request) (model.Reply, error) {
		if !first {
			<-ctx.Done()
			return model.Reply{}, &model.Error{Message: "stopped", Usage: content.Usage{InputTokens: 2}}
		}
		first = false
		r := modeltest.Calls(call("", "echo", `{"text":"hi"}`))
		r.Usage = content.Usage{InputTokens: 40}
		return r, nil
	})
}

// doomed is a journal whose host dies after the turn of session s ended.
type doomed struct {
	journal.Journal
	dead *atomic.Bool
}

func (j doomed) Append(ctx context.Context, h journal.Head, e events.Entry) (journal.Head, error) {
	if j.dead.Load() {
		return h, errors.New("power failure")
	}
	j.dead.Store(e.Session == "s" && slices.Contains(e.Kinds(), events.KindTurnFinished))
	return j.Journal.Append(ctx, h, e)
}

func TestASubAgentIsStoppedAfterItsHostCrashed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory()
		sick := doomed{log, new(atomic.Bool)}
		m := halfDone()
		d := start(t, delegating(t, agent.Config{Model: m, Tools: []tool.Source{echo(t)}, Journal: sick}))
		time.AfterFunc(time.Minute, func() { _ = d.Cancel(t.Context(), "") })
		if got := step[*session.Finished](t, d).Result.FinishReason; got != content.Cancelled {
			t.Fatalf("the turn ended %s", got)
		}
		_ = d.Close(t.Context())
		if got := lastReason(t, log, engine.ChildID("s", "t1-r1-c1")); got != "" {
			t.Fatalf("the sub-agent's turn ended %q before its host died", got)
		}
		for range 2 { // the second time there is nothing left to do
			again := delegating(t, agent.Config{Model: m, Tools: []tool.Source{echo(t)}, Journal: log})
			again.Input = nil
			d = start(t, again)
			step[*session.AwaitingInput](t, d)
			synctest.Wait()
			if s := d.Snapshot(); s.Usage.InputTokens != 40 || s.Requests != 4 || s.ToolCalls != 2 { // one model call died with the host
				t.Errorf("counted are %d requests, %d tool calls, %+v", s.Requests, s.ToolCalls, s.Usage)
			}
			if got := lastReason(t, log, engine.ChildID("s", "t1-r1-c1")); got != content.Cancelled {
				t.Errorf("the sub-agent's turn ended %q", got)
			}
			if err := d.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		recorded[events.UsageUpdated](t, log, "s") // which has it audited
	})
}

func TestAStoppedSubAgentsUsageCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*agent.Config)
		opts   []tool.Option
		steps  func(*testing.T, *session.Session) content.FinishReason
	}{
		"cancelled": {steps: func(t *testing.T, d *session.Session) content.FinishReason {
			t.Helper()
			time.AfterFunc(time.Minute, func() { _ = d.Cancel(t.Context(), "") })
			return step[*session.Finished](t, d).Result.FinishReason
		}},
		"the call's time is over": {
			opts: []tool.Option{tool.WithSpec(func(s *tool.Spec) { s.Timeout = time.Minute })},
			steps: func(t *testing.T, d *session.Session) content.FinishReason {
				t.Helper()
				step[*session.AfterToolResult](t, d)
				return step[*session.Finished](t, d).Result.FinishReason
			},
		},
		"the turn's time is over": {
			change: func(c *agent.Config) { c.Limits.WallClock = time.Minute },
			steps: func(t *testing.T, d *session.Session) content.FinishReason {
				t.Helper()
				return step[*session.Finished](t, d).Result.FinishReason
			},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := journal.NewMemory()
			c := delegating(t, agent.Config{Model: halfDone(), Tools: []tool.Source{echo(t)}, Journal: log}, tc.opts...)
			if tc.change != nil {
				tc.change(&c)
			}
			d := start(t, c)
			reason := tc.steps(t, d)
			if err := d.Close(t.Context()); err != nil {
				t.Error(err)
			}
			s := d.Snapshot()
			own := int64(1)
			if reason == content.Completed {
				own = 2
			}
			if s.Usage.InputTokens != 42 || s.Requests != own+2 || s.ToolCalls != 2 {
				t.Errorf("%s: counted are %d requests, %d tool calls, %+v", name, s.Requests, s.ToolCalls, s.Usage)
			}
			if got := lastReason(t, log, engine.ChildID("s", "t1-r1-c1")); got != content.Cancelled {
				t.Errorf("%s: the sub-agent's turn ended %q", name, got)
			}
			recorded[events.UsageUpdated](t, log, "s") // which has it audited
		})
	}
}
