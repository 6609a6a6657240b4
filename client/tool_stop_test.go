package client_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

// halfDone is a sub-agent that has made one call when its model becomes slow.
const halfDone = `
replies:
  - calls: [{name: echo, input: {text: hi}}]
    usage: {input: 40}
  - text: ok
    delay: 30m
    usage: {input: 2}
`

// billed waits until the calling session has recorded the usage of its sub-agent.
func (s *delegation) billed() events.UsageUpdated {
	s.T.Helper()
	for rec, err := range s.Cell.Journal().Follow(s.Ctx, "s", 0) {
		if err != nil {
			s.T.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if u, ok := ev.(events.UsageUpdated); ok && u.Source == "child" {
				turnlogtest.Facts[events.UsageUpdated](s.Deployment, "s") // which has it audited
				return u
			}
		}
	}
	return events.UsageUpdated{}
}

// wantBilled checks that the usage of halfDone is counted once.
func (s *delegation) wantBilled(requests int64) {
	s.T.Helper()
	if got := s.billed(); got.Usage.InputTokens != 40 || got.Requests != requests || got.ToolCalls != 1 {
		s.T.Errorf("the calling session was told of %+v", got)
	}
	<-time.After(time.Minute)
	n := 0
	for _, u := range turnlogtest.Facts[events.UsageUpdated](s.Deployment, "s") {
		if u.Source == "child" {
			n++
		}
	}
	if n != 1 {
		s.T.Errorf("it was billed %d times", n)
	}
}

func TestACancelReachesASubAgentWithoutItsWorker(t *testing.T) {
	for name, tc := range map[string]struct {
		lost, another bool
	}{
		"it is there":                 {},
		"it was lost, and is alone":   {lost: true},
		"it was lost, another is not": {lost: true, another: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newDelegation(t, halfDone)
			w := s.work("w1")
			defer s.drive(engine.Config{})()
			x := s.begin()
			s.Until(child, events.KindRoundFinished)
			if tc.lost {
				w.Crash(t)
			} else {
				defer w.Drain(t)
			}
			if tc.another {
				defer s.work("w2").Drain(t)
			}
			began := time.Now()
			if err := x.Cancel(s.Ctx, ""); err != nil {
				t.Fatal(err)
			}
			if got := next[*session.Finished](s.world, x).Result.FinishReason; got != content.Cancelled {
				t.Errorf("%s: the turn ended %s", name, got)
			}
			if got, took := s.ended(), time.Since(began); got != content.Cancelled || took > time.Second {
				t.Errorf("%s: the sub-agent's turn ended %s after %s", name, got, took)
			}
			s.wantBilled(2)
			if n := len(turnlogtest.Facts[events.CancelRequested](s.Deployment, child)); n != 1 {
				t.Errorf("%s: the sub-agent was cancelled %d times", name, n)
			}
		})
	}
}

// A session is canceled, and its driver is gone before it reported that.
func TestACancelReachesTheSubAgentAfterTheCallersDriverIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDelegation(t, halfDone)
		defer s.work("w1").Drain(t)
		stop := s.drive(engine.Config{})
		s.begin()
		s.Until(child, events.KindRoundFinished)
		stop()
		cancel := commands.Cancel{Scope: commands.ScopeSession, Reason: "enough"}
		if err := s.Client.Send(s.Ctx, "s", "x", cancel); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		defer s.drive(engine.Config{})()
		if got := s.ended(); got != content.Cancelled {
			t.Errorf("the sub-agent's turn ended %s", got)
		}
		s.wantBilled(3) // its own node was lost, too
	})
}

func TestASubAgentIsStoppedAndBilledAtATimeout(t *testing.T) {
	for name, tc := range map[string]struct {
		turn, call time.Duration
		lost       bool
		status     content.Status
	}{
		"the turn's":                   {turn: 5 * time.Minute, status: content.StatusLimit},
		"the turn's, its worker lost":  {turn: 5 * time.Minute, lost: true, status: content.StatusLimit},
		"the call's":                   {call: 5 * time.Minute, status: content.StatusError},
		"the call's, but not the work": {call: time.Hour, status: content.StatusOK},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newDelegation(t, halfDone)
			if tc.call != 0 {
				s.opts = []tool.Option{tool.WithSpec(func(s *tool.Spec) { s.Timeout = tc.call })}
			}
			w := s.work("w1")
			defer s.drive(engine.Config{})()
			x := s.start("s", delegating, false, func(c *events.Config) { c.Limits.WallClock = tc.turn })
			t.Cleanup(func() { _ = x.Close(t.Context()) })
			if err := x.Send(s.Ctx, "", content.UserText("go")); err != nil {
				t.Fatal(err)
			}
			s.Until(child, events.KindRoundFinished)
			if tc.lost {
				w.Crash(t)
			} else {
				defer w.Drain(t)
			}
			next[*session.Finished](s.world, x)
			if got := s.result().Result.Status; got != tc.status {
				t.Errorf("%s: the call ended %s", name, got)
			}
			want := content.Cancelled
			if tc.status == content.StatusOK {
				want = content.Completed
			}
			if got := s.ended(); got != want {
				t.Errorf("%s: the sub-agent's turn ended %s", name, got)
			}
			if want == content.Cancelled {
				s.wantBilled(2)
			} else if got := s.billed(); got.Usage.InputTokens != 42 || got.Requests != 2 || got.ToolCalls != 1 {
				t.Errorf("%s: the calling session was told of %+v", name, got)
			}
		})
	}
}

func TestNoSessionIsOpenedForACallThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDelegation(t, "replies:\n  - text: done\n")
		defer s.work("w1").Drain(t)
		defer s.drive(engine.Config{})()
		x := s.begin()
		next[*session.Finished](s.world, x)
		for id, refused := range map[content.SessionID]bool{
			"s-t1-r2-c1": true,  // there is no such call
			"s-t1-r1":    false, // no call has a session of that name
		} {
			late, err := s.Client.Start(s.Ctx, client.Options{
				ID: id, Parent: "s", Config: events.Config{Model: "scripted:x", ModelData: []byte("replies:\n  - text: hi\n")},
			})
			e, is := errors.AsType[*session.InvalidStateError](err)
			if is != refused || is && e.Reason != "already_finished" {
				t.Errorf("Start of %s = %v", id, err)
			}
			if err == nil {
				_ = late.Close(t.Context())
			}
		}
		late, err := s.Client.Start(s.Ctx, client.Options{ID: "gone-t1-r1-c1", Parent: "gone", Config: events.Config{Model: "scripted:x"}})
		if err != nil {
			t.Fatalf("Start for a caller outside of the deployment = %v", err)
		}
		_ = late.Close(t.Context())
	})
}
