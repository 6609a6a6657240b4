package client_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/loop/snapshot"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

func TestASubAgentAnswersItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDelegation(t, "replies:\n  - text: 'done: {{.Prompt}}'\n    usage: {input: 40, output: 2}\n    delay: 10m\n")
		defer s.work("w1").Drain(t)
		defer s.drive(engine.Config{})()
		x := s.begin()
		fin := next[*session.Finished](s.world, x).Result
		if fin.Text() != "done: help" || fin.Usage.InputTokens != 40 || fin.Usage.OutputTokens != 2 {
			t.Errorf("turn = %q, used %+v", fin.Text(), fin.Usage)
		}
		started := turnlogtest.Facts[events.RunStarted](s.Deployment, child)
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

func TestASubAgentsQuestionIsAskedInTheCallingSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDelegation(t, echoing)
		s.change = asking
		w := s.work("w1")
		defer s.drive(engine.Config{})()
		x := s.begin()
		ask := next[*session.ApprovalRequest](s.world, x)
		if ask.Tool != "helper" || !strings.HasPrefix(ask.Summary, "helper: ") || !strings.Contains(ask.Summary, "echo") {
			t.Errorf("approval = %+v", ask.Approval)
		}
		w.Drain(t) // it is empty
		<-time.After(24 * time.Minute)
		defer s.work("w2").Drain(t)
		if err := ask.Approve(s.Ctx); err != nil {
			t.Fatal(err)
		}
		if got := next[*session.Finished](s.world, x).Result.Text(); got != "it said hi" || s.echoes != 1 {
			t.Errorf("answer = %q after %d runs", got, s.echoes)
		}
		if all := turnlogtest.Facts[events.ApprovalResolved](s.Deployment, child); len(all) != 1 || all[0].Outcome != events.Approved {
			t.Errorf("the sub-agent's approval was settled as %+v", all)
		}
	})
}

func TestADenialReachesTheSubAgent(t *testing.T) {
	for name, lost := range map[string]bool{"its worker is there": false, "its worker was lost": true} {
		synctest.Test(t, func(t *testing.T) {
			s := newDelegation(t, echoing)
			s.change = asking
			w := s.work("w1")
			defer s.drive(engine.Config{})()
			x := s.begin()
			ask := next[*session.ApprovalRequest](s.world, x)
			if lost {
				w.Crash(t)
			} else {
				defer w.Drain(t)
			}
			if err := ask.DenyWithReason(s.Ctx, "not today"); err != nil {
				t.Fatal(err)
			}
			if lost {
				defer s.work("w2").Drain(t)
			}
			if got := next[*session.Finished](s.world, x).Result.Text(); got != "Permission denied: not today" {
				t.Errorf("%s: answer = %q", name, got)
			}
			if got := s.ended(); got != content.Completed || s.echoes != 0 {
				t.Errorf("%s: the sub-agent's turn ended %s after %d runs", name, got, s.echoes)
			}
			if got := turnlogtest.Facts[events.ToolResultReceived](s.Deployment, child)[0].Result.Text(); got != "Permission denied: not today" {
				t.Errorf("%s: the sub-agent was told %q", name, got)
			}
		})
	}
}

func TestACancelReachesTheSubAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDelegation(t, "replies:\n  - text: ok\n    delay: 30m\n")
		defer s.work("w1").Drain(t)
		defer s.drive(engine.Config{})()
		x := s.begin()
		s.Until(child, events.KindModelCallStarted)
		began := time.Now()
		if err := x.Cancel(s.Ctx, ""); err != nil {
			t.Fatal(err)
		}
		if got := next[*session.Finished](s.world, x).Result.FinishReason; got != content.Cancelled {
			t.Errorf("the turn ended %s", got)
		}
		if got, took := s.ended(), time.Since(began); got != content.Cancelled || took > time.Second {
			t.Errorf("the sub-agent's turn ended %s after %s", got, took)
		}
	})
}

func TestACancelReachesASubAgentThatWaitsForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDelegation(t, echoing)
		s.change = asking
		defer s.work("w1").Drain(t)
		defer s.drive(engine.Config{})()
		x := s.begin()
		next[*session.ApprovalRequest](s.world, x)
		if err := x.Cancel(s.Ctx, ""); err != nil {
			t.Fatal(err)
		}
		if got := s.ended(); got != content.Cancelled || s.echoes != 0 {
			t.Errorf("the sub-agent's turn ended %s after %d runs", got, s.echoes)
		}
	})
}

func TestASubAgentEndsWithItsCallsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDelegation(t, "replies:\n  - text: ok\n    delay: 30m\n")
		s.opts = []tool.Option{tool.WithSpec(func(s *tool.Spec) { s.Timeout = time.Minute })}
		defer s.work("w1").Drain(t)
		defer s.drive(engine.Config{})()
		x := s.begin()
		if got := next[*session.Finished](s.world, x).Result.Text(); got != "Tool timed out after 1m0s" {
			t.Errorf("answer = %q", got)
		}
		if got := s.ended(); got != content.Cancelled {
			t.Errorf("the sub-agent's turn ended %s", got)
		}
	})
}

func TestASubAgentOutlivesItsWorker(t *testing.T) {
	for name, leave := range map[string]func(*turnlogtest.Process, *testing.T){
		"crashed": func(w *turnlogtest.Process, t *testing.T) { w.Crash(t) },
		"drained, and its turn is over before another worker comes": func(w *turnlogtest.Process, t *testing.T) {
			w.Drain(t)
			<-time.After(10 * time.Minute)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newDelegation(t, "replies:\n  - text: done\n    delay: 5m\n")
			w := s.work("w1")
			defer s.drive(engine.Config{})()
			x := s.begin()
			s.Until(child, events.KindModelCallStarted)
			leave(w, t)
			defer s.work("w2").Drain(t)
			if got := next[*session.Finished](s.world, x).Result.Text(); got != "done" {
				t.Errorf("%s: answer = %q", name, got)
			}
			if n := len(turnlogtest.Facts[events.ModelCallStarted](s.Deployment, child)); n != 1 {
				t.Errorf("%s: its model was called %d times", name, n)
			}
			if got := s.result().Attempt; got != 1 {
				t.Errorf("%s: the call was dispatched %d times, want once: it came to another worker", name, got)
			}
		})
	}
}

func TestTheCallersRemainingLimitsBoundItsSubAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDelegation(t, "replies:\n  - calls: [{name: echo, input: {text: hi}}]\n    usage: {input: 30}\nrepeat: true\n")
		defer s.work("w1").Drain(t)
		defer s.drive(engine.Config{})()
		x := s.start("s", delegating, false, func(c *events.Config) { c.Limits.InputTokens = 100 })
		defer func() { _ = x.Close(t.Context()) }()
		if err := x.Send(s.Ctx, "", content.UserText("go")); err != nil {
			t.Fatal(err)
		}
		fin := next[*session.Finished](s.world, x).Result
		if fin.FinishReason != content.Limit || fin.Usage.InputTokens != 120 {
			t.Errorf("the turn ended %s and used %+v", fin.FinishReason, fin.Usage)
		}
		if got := s.ended(); got != content.Limit || s.echoes != 3 {
			t.Errorf("the sub-agent's turn ended %s after %d rounds", got, s.echoes)
		}
		if got := s.result().Result.Text(); got != "Tool failed: input token limit exceeded: 120 > 100" {
			t.Errorf("result = %q", got)
		}
	})
}

// The test stores a snapshot of the calling session that contradicts its journal.
func TestACallDoesNotBelieveAForgedSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDelegation(t, "replies:\n  - text: done\n")
		defer s.work("w1").Drain(t)
		defer s.drive(engine.Config{})()
		x := s.start("s", "replies:\n  - calls: [{name: helper, input: {prompt: help}}]\n    delay: 1m\n  - text: ok\n", false, nil)
		defer func() { _ = x.Close(t.Context()) }()
		if err := x.Send(s.Ctx, "", content.UserText("go")); err != nil {
			t.Fatal(err)
		}
		s.Until("s", events.KindModelCallStarted)
		state, head, err := s.Client.Read(s.Ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		state.Config.Limits.InputTokens = 1234
		raw, err := snapshot.Encode(state)
		if err == nil {
			err = s.Cell.Snapshots().Put(s.Ctx, "s", journal.Snapshot{Head: head, State: raw})
		}
		if err != nil {
			t.Fatal(err)
		}
		next[*session.Finished](s.world, x)
		if got := turnlogtest.Facts[events.RunStarted](s.Deployment, child)[0].Config.SessionLimits.InputTokens; got != 0 {
			t.Errorf("the sub-agent may use %d tokens, by the forged snapshot", got)
		}
	})
}

func TestTwoAttemptsStartOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDelegation(t, "replies:\n  - text: done\n")
		s.Offer("w0", s.tools(s.Client)...)
		stop := s.drive(engine.Config{})
		x := s.begin()
		s.Until("s", events.KindToolDispatched)
		synctest.Wait() // the task is on its queue
		stop()
		for _, name := range []string{"w1", "w2"} { // no node answers the first, nor the second
			w := s.work(name)
			if name == "w2" {
				<-time.After(30 * time.Second) // the lease of the first is over
				defer w.Drain(t)
				break
			}
			synctest.Wait()
			w.Crash(t)
		}
		if asks, err := natstest.Collect(s.Cell.Inbox().Read(s.Ctx, child, nil, 0)); len(asks) != 2 || err != nil {
			t.Errorf("%d asks to start it, %v", len(asks), err)
		}
		defer s.drive(engine.Config{})()
		if got := next[*session.Finished](s.world, x).Result.Text(); got != "done" {
			t.Errorf("answer = %q", got)
		}
		if n := len(turnlogtest.Facts[events.RunStarted](s.Deployment, child)); n != 1 {
			t.Errorf("it began %d times", n)
		}
	})
}

func TestAnUnansweredQuestionExpiresInBothSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDelegation(t, echoing)
		s.change = func(c *events.Config) {
			asking(c)
			c.ApprovalTTL = 10 * time.Minute
		}
		defer s.work("w1").Drain(t)
		defer s.drive(engine.Config{})()
		x := s.begin()
		ask := next[*session.ApprovalRequest](s.world, x)
		if left := time.Until(ask.ExpiresAt.Std()); left < 9*time.Minute || left > 11*time.Minute {
			t.Errorf("it expires in %s", left)
		}
		s.Until("s", events.KindTurnFinished)
		if got := s.ended(); got != content.Completed || s.echoes != 0 {
			t.Errorf("the sub-agent's turn ended %s after %d runs", got, s.echoes)
		}
		if r := s.result().Result; r.Status != content.StatusExpired {
			t.Errorf("result = %+v", r)
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
			s := newDelegation(t, c.script)
			s.change = c.change
			defer s.work("w1").Drain(t)
			defer s.drive(engine.Config{})()
			if got := next[*session.Finished](s.world, s.begin()).Result.Text(); got != c.want {
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
		s := newDelegation(t, "replies:\n  - calls: [{name: helper, input: {prompt: deeper}}]\n  - text: '{{(index .Results 0).Text}}'\n")
		s.change = func(c *events.Config) {
			c.Rules = []events.Rule{{Tool: "helper", Action: events.RuleAsk}}
		}
		defer s.work("w1").Drain(t)
		defer s.drive(engine.Config{})()
		x := s.begin()
		for range 2 { // each level asks before it goes deeper
			ask := next[*session.ApprovalRequest](s.world, x)
			if err := ask.Approve(s.Ctx); err != nil {
				t.Fatal(err)
			}
		}
		ask := next[*session.ApprovalRequest](s.world, x)
		if !strings.HasPrefix(ask.Summary, "helper: helper: helper: ") {
			t.Errorf("the third question is %q", ask.Summary)
		}
		if err := x.Cancel(s.Ctx, ""); err != nil {
			t.Fatal(err)
		}
		for _, id := range []content.SessionID{child, child + "-t1-r1-c1", child + "-t1-r1-c1-t1-r1-c1"} {
			s.Until(id, events.KindTurnFinished)
			if got := turnlogtest.Facts[events.TurnFinished](s.Deployment, id)[0].FinishReason; got != content.Cancelled {
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
			if _, err := w.Client.Tool(toolName, description, o); err == nil {
				t.Errorf("%s: there is a tool", name)
			}
		}
	})
}
