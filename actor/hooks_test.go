package actor_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/turnlogtest"
)

// bracketHook is a hook at the start and end of sessions, on several nodes. It refuses the session
// intruder.
type bracketHook struct {
	mu   *sync.Mutex
	seen *[]string
}

func newBracketHook() bracketHook { return bracketHook{new(sync.Mutex), new([]string)} }

func (bracketHook) Name() string { return "bracketHook" }
func (bracketHook) Points() []extension.Point {
	return []extension.Point{extension.SessionStart, extension.SessionEnd}
}

func (p bracketHook) OnEvent(_ context.Context, e extension.HookEvent) (extension.Action, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*p.seen = append(*p.seen, string(e.Point)+" "+string(e.Session))
	if e.Session == "intruder" || e.Point == extension.SessionEnd {
		return extension.Action{Kind: extension.Terminate, Reason: "no"}, nil
	}
	return extension.Action{Reason: "welcome"}, nil
}

func (p bracketHook) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(*p.seen)
}

func with(hooks ...extension.Hook) func(*actor.Config) {
	return func(c *actor.Config) { c.Effects = engine.Config{Hooks: hooks} }
}

func TestTheHooksOfASessionsStartAndEndRunOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := newWorld(t), newBracketHook()
		first := w.node("n1", with(p))
		s := w.Start("s", "replies:\n  - text: one\n  - text: two\n  - text: three\n    delay: 1m\n")
		w.submit(s, "one")
		w.finish(s)
		if err := s.Ask(w.Ctx, commands.OpenSession{}); err == nil {
			t.Error("it was opened twice")
		}
		second := w.node("n2", with(p))
		first.Crash(t)
		w.submit(s, "two")
		w.finish(s)
		w.submit(s, "three")
		if err := s.Ask(w.Ctx, commands.Close{Reason: "early"}); err == nil {
			t.Error("it was closed in the middle of a turn")
		}
		w.finish(s)
		if err := s.Ask(w.Ctx, commands.Close{Reason: "done"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Ask(w.Ctx, commands.Close{Reason: "again"}); err == nil {
			t.Error("it was closed twice")
		}
		if got := p.asked(); !slices.Equal(got, []string{"session_start s", "session_end s"}) {
			t.Errorf("the hook was asked at %q", got)
		}
		got := turnlogtest.Facts[events.HookDecided](w.Deployment, "s")
		if len(got) != 2 || got[0].Action != "continue" || !slices.Equal(got[0].Notes, []events.HookNote{{Hook: "bracketHook", Text: "welcome"}}) ||
			got[1].Action != "terminate" || got[1].Hook != "bracketHook" {
			t.Errorf("recorded: %+v", got)
		}
		if n := len(turnlogtest.Facts[events.SessionClosed](w.Deployment, "s")); n != 1 {
			t.Errorf("it was closed %d times: its hook cannot prevent that", n)
		}
		second.Drain(t)
	})
}

func TestAHookMayKeepASessionFromStarting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := newWorld(t), newBracketHook()
		n := w.node("n1", with(p))
		_, err := w.Client.Start(w.Ctx, client.Options{ID: "intruder", Config: events.Config{Model: "scripted:x", ModelData: []byte(oneReply)}})
		if e, ok := errors.AsType[*session.InvalidStateError](err); !ok || e.Reason != "hook_terminated" || e.Detail != "bracketHook: no" {
			t.Errorf("Start = %v", err)
		}
		if started := turnlogtest.Facts[events.RunStarted](w.Deployment, "intruder"); len(started) != 0 {
			t.Errorf("it started: %+v", started)
		}
		n.Drain(t)
	})
}

func TestANodeWithAnotherConfigurationRecordsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := newWorld(t), newBracketHook()
		policy := func(name string) func(*actor.Config) { return func(c *actor.Config) { c.Version = name } }
		s := (*session.Session)(nil)
		want := 0
		for _, tc := range []struct {
			node    string
			opts    []func(*actor.Config)
			hooks   int
			changes bool
		}{
			{"plain", nil, 0, false},
			{"plain-again", nil, 0, false},
			{"hooks", []func(*actor.Config){with(p)}, 1, true},
			{"hooks-again", []func(*actor.Config){with(p)}, 1, false},
			{"policy", []func(*actor.Config){with(p), policy("strict")}, 1, true},
			{"policy-again", []func(*actor.Config){with(p), policy("strict")}, 1, false},
			{"other-policy", []func(*actor.Config){with(p), policy("lax")}, 1, true},
			{"plain-at-last", nil, 0, true},
		} {
			n := w.node(tc.node, tc.opts...)
			if s == nil {
				s = w.startWith("s", oneReply, func(c *events.Config) { c.MaxParallel, c.Digest = 3, "the client's" })
			}
			w.submit(s, "go")
			w.finish(s)
			n.Drain(t)
			if tc.changes {
				want++
			}
			all := turnlogtest.Facts[events.ConfigChanged](w.Deployment, "s")
			if len(all) != want {
				t.Fatalf("after %s %d changes are recorded, want %d", tc.node, len(all), want)
			}
			if tc.changes && (len(all[want-1].Config.Hooks) != tc.hooks || all[want-1].Config.MaxParallel != 3 || all[want-1].Config.Model == "") {
				t.Errorf("after %s it is %+v", tc.node, all[want-1].Config)
			}
		}
	})
}
