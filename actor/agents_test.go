package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/memory"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/notes"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/turnlogtest"
)

// written are agent files, by name.
type written map[string]string

func (w written) find(_ context.Context, name, _ string) (*agentfile.Definition, error) {
	text, ok := w[name]
	if !ok {
		return nil, fmt.Errorf("agent %q: %w", name, agentfile.ErrUnknown)
	}
	return agentfile.Parse(name+".yaml", []byte(text), nil)
}

// knowing gives a node agents.
func knowing(files written, notes notes.Store) func(*actor.Config) {
	return func(c *actor.Config) {
		c.Agents = agentfile.Host{
			Find: files.find, Notes: notes,
			Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) },
		}
	}
}

// of starts a session of an agent.
func of(name string) func(*client.Options) {
	return func(o *client.Options) { o.Config.Agent = &events.AgentRef{Name: name} }
}

const (
	strict    = "system: Be strict.\nguardrails: {input: [{name: words, deny: [forbidden]}]}\nlimits: {rounds: 3}\n"
	lax       = "system: Be lax.\n"
	fineReply = "replies:\n  - text: fine\n    repeat: true\n"
)

func TestASessionKeepsItsAgentsVersionAfterATakeover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1", knowing(written{"reviewer": strict}, nil))
		s := w.Start("old", fineReply, of("reviewer"))
		w.submit(s, "one")
		w.finish(s)
		first.Crash(t)

		second := w.node("n2", knowing(written{"reviewer": lax}, nil))
		w.submit(s, "forbidden")
		if got := w.finish(s); got.FinishReason == content.Completed {
			t.Error("another node with a changed file dropped the guardrail")
		}
		late := w.Start("new", fineReply, of("reviewer"))
		w.submit(late, "forbidden")
		if got := w.finish(late); got.FinishReason != content.Completed {
			t.Errorf("a later session ended as %s, under the earlier version", got.FinishReason)
		}
		old, fresh := turnlogtest.Facts[events.RunStarted](w.Deployment, "old")[0], turnlogtest.Facts[events.RunStarted](w.Deployment, "new")[0]
		if a := old.Config.Agent; a == nil || a.Name != "reviewer" || a.Version == fresh.Config.Agent.Version || !strings.Contains(string(a.Data), "Be strict.") {
			t.Errorf("the journal says %+v", a)
		}
		if old.Transcript[0].Text() != "Be strict." || old.Config.Limits.MaxRounds != 3 || len(old.Config.Hooks) != 1 {
			t.Errorf("the session began with %+v, %+v", old.Transcript, old.Config)
		}
		second.Drain(t)
	})
}

func TestANodeLeavesSessionsOfUnknownAgentsToOtherNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1", knowing(written{"reviewer": strict}, nil))
		w.Start("s", fineReply, of("reviewer"))
		first.Drain(t)

		second := w.node("n2")
		w.send("s", "later", commands.SubmitInput{Items: []content.Item{content.UserText("forbidden")}})
		third := w.node("n3", knowing(written{}, nil))
		w.Until("s", events.KindTurnFinished)
		if got := turnlogtest.Facts[events.TurnFinished](w.Deployment, "s")[0]; got.FinishReason == content.Completed {
			t.Error("a node without agents drove the session without its guardrail")
		}
		if owners := w.owners("s"); slices.Contains(owners, "n2") {
			t.Errorf("the session was driven by %v", owners)
		}
		second.Drain(t)
		third.Drain(t)
	})
}

func TestAnInvalidAgentIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", knowing(written{"broken": "engine: x\n"}, nil))
		for name, want := range map[string]string{"absent": commands.ReasonUnknownAgent, "broken": commands.ReasonBadAgent} {
			_, err := w.Client.Start(w.Ctx, client.Options{ID: content.SessionID(name), Config: events.Config{Agent: &events.AgentRef{Name: name}}})
			refused, ok := errors.AsType[*session.InvalidStateError](err)
			if !ok || refused.Reason != want || !strings.Contains(refused.Detail, name) {
				t.Errorf("%s: %v, want a refusal with reason %s", name, err, want)
			}
		}
		n.Drain(t)
	})
}

func TestATaskHasTheNotesOfItsAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", knowing(written{"fixer": "memory: {ttl: 24h}\n"}, memory.Of(w.Cell)))
		for _, id := range []content.SessionID{"first", "second"} {
			s := w.Start(id, fineReply, of("fixer"))
			if err := s.Ask(w.Ctx, commands.StartTask{Spec: events.TaskSpec{Goal: "Fix the parser"}}); err != nil {
				t.Fatal(err)
			}
			w.finish(s)
		}
		notes, err := memory.Of(w.Cell).Notes(w.Ctx, "fixer")
		if err != nil || len(notes) != 1 {
			t.Errorf("the agent remembers %v, %v; want the one goal", notes, err)
		}
		recalled := turnlogtest.Facts[events.MemoryRecalled](w.Deployment, "second")
		if !slices.ContainsFunc(recalled, func(m events.MemoryRecalled) bool {
			return len(m.Items) == 1 && strings.Contains(m.Items[0].Text(), "fine")
		}) {
			t.Errorf("the second task recalled %+v", recalled)
		}
		n.Drain(t)
	})
}
