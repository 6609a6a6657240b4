package replay

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// stories are the sessions that represent a release, by name.
func stories() map[string]func(*story) {
	return map[string]func(*story){
		"plain": func(s *story) {
			s.start(agent.Config{SystemPrompt: "Be brief.", Model: answering(modeltest.Text("hello"), modeltest.Text("bye"))})
			s.say("hi")
			s.finished(content.Completed)
			s.say("that is all")
			s.finished(content.Completed)
		},
		"tools": func(s *story) {
			s.start(agent.Config{
				Model: answering(
					modeltest.Calls(call("c1", "echo", `{"text":"a"}`), call("c1", "echo", `{"text":"b"}`), call("", "fail", `{}`)),
					modeltest.Calls(call("c2", "nope", `{}`), call("c3", "echo", `{"text":7}`)),
					modeltest.Text("done"),
				), MaxParallel: -1,
			})
			s.say("use tools")
			s.afterTools()
			s.sendTo(session.Steer, "and be quick")
			s.afterTools()
			s.finished(content.Completed)
		},
		"approvals": func(s *story) {
			s.start(agent.Config{
				Permissions: asking{},
				Model: answering(
					modeltest.Calls(call("c1", "echo", `{"text":"a"}`), call("c2", "echo", `{"text":"b"}`), call("c3", "echo", `{"text":"c"}`)),
					modeltest.Calls(call("c4", "echo", `{"text":"d"}`)),
					modeltest.Text("done"),
				),
			})
			s.say("ask me")
			s.approval(func(r *session.ApprovalRequest) error { return r.DenyWithReason(s.ctx, "not this one") })
			s.approval(func(r *session.ApprovalRequest) error {
				return r.ApproveWithInput(s.ctx, json.RawMessage(`{"text":"patched"}`))
			})
			s.approval(func(r *session.ApprovalRequest) error { return r.Approve(s.ctx) })
			s.afterTools()
			s.approval(func(*session.ApprovalRequest) error { s.pass(2 * time.Minute); return nil }) // it expires
			s.afterTools()
			s.finished(content.Completed)
		},
		"open_approval": func(s *story) {
			s.start(agent.Config{Permissions: asking{}, Model: answering(modeltest.Calls(call("c1", "echo", `{"text":"a"}`)))})
			s.say("ask me")
			s.approval(func(*session.ApprovalRequest) error { return nil })
			s.sendTo(session.Queue, "later")
		},
		"crash": func(s *story) {
			c := agent.Config{MaxParallel: 2, Model: answering(
				modeltest.Calls(call("c1", "hang", `{}`), call("c2", "slow_read", `{}`)), modeltest.Text("so be it"),
			)}
			s.start(c)
			s.say("work")
			s.impatient(time.Second) // then c1 is unknown, and c2 runs again
			s.start(c)               // and again, by another driver
			s.pass(time.Second)
			s.afterTools()
			s.finished(content.Completed)
		},
		"model_lost": func(s *story) {
			c := agent.Config{Model: stubborn()}
			s.start(c)
			s.say("work")
			s.impatient(time.Second)
			s.start(c)
			s.finished(content.Completed)
		},
		"retries": func(s *story) {
			s.start(agent.Config{Model: failing(content.ClassRateLimit, content.ClassServer, content.ClassAuth)})
			s.say("work")
			if _, err := s.driver.Next(s.ctx); err == nil {
				s.t.Error("Next = nil, want the provider's error")
			}
			s.sendTo(session.Steer, "again")
			s.finished(content.Completed)
		},
		"background": func(s *story) {
			s.start(agent.Config{MaxParallel: -1, Model: answering(
				modeltest.Calls(call("c1", "background", `{}`), call("c2", "detaches", `{}`)),
				modeltest.Text("they are at work"), modeltest.Text("one is done"), modeltest.Text("both are done"),
			)})
			s.say("start them")
			s.afterTools()
			s.finished(content.Completed)
			s.awaiting()
			s.pass(time.Hour)
			s.finished(content.Completed)
			s.restful()
		},
		"cancel": func(s *story) {
			s.start(agent.Config{Model: answering(
				modeltest.Calls(call("c1", "hang", `{}`)), modeltest.Calls(call("c2", "hang", `{}`), call("c3", "echo", `{"text":"x"}`)),
				modeltest.Text("done"),
			)})
			s.say("work")
			s.meanwhile(time.Second, commands.Cancel{Scope: commands.ScopeTurn, Reason: "enough"})
			s.finished(content.Cancelled)
			s.say("again")
			s.meanwhile(time.Second, commands.Cancel{Scope: commands.ScopeCall, Call: "c2"})
			s.afterTools()
			s.sendTo(session.InterruptTurn, "no, this")
			s.finished(content.Cancelled)
			s.finished(content.Completed)
			s.ask(commands.Cancel{Scope: commands.ScopeSession})
			s.ask(commands.Close{Reason: "the end"})
		},
		"partial": func(s *story) {
			s.start(agent.Config{Model: halfway{answering(modeltest.Text(""))}})
			s.say("tell me")
			s.meanwhile(time.Second, commands.Cancel{Scope: commands.ScopeTurn})
			s.finished(content.Cancelled)
		},
		"limits": func(s *story) {
			s.start(agent.Config{
				Limits: events.Limits{MaxRounds: 2, ToolCalls: 3}, SessionLimits: events.Limits{Requests: 3},
				Model: answering(modeltest.Calls(call("c1", "echo", `{"text":"a"}`), call("c2", "echo", `{"text":"b"}`))),
			})
			s.say("go on for ever")
			s.afterTools()
			s.finished(content.Limit) // the calls of the second round are too many
			s.say("again")
			s.afterTools()
			s.finished(content.Limit) // the session has made its last request
		},
		"replies": func(s *story) {
			compacted, cut, blocked := modeltest.Text("so far"), modeltest.Text("cut of"), modeltest.Text("")
			compacted.FinishReason, cut.FinishReason, blocked.FinishReason = content.Compaction, content.MaxTokens, content.Blocked
			blocked.Items = nil
			s.start(agent.Config{Model: answering(compacted, cut, blocked)})
			s.say("a long story")
			s.finished(content.MaxTokens)
			s.say("and another")
			s.finished(content.Blocked)
		},
		"hooks": func(s *story) {
			s.start(agent.Config{Hooks: []extension.Hook{&guard{}, extension.FailOpen(brittle{})}, Model: answering(
				modeltest.Calls(call("c1", "echo", `{"text":"skip me"}`), call("c2", "echo", `{"text":"run me"}`)), modeltest.Text("done"),
				modeltest.Calls(call("c3", "echo", `{"text":"stop me"}`)),
			)})
			s.say("work")
			s.afterTools()
			s.finished(content.Completed)
			s.say("again")
			s.finished(content.Terminated)
		},
		"mutators": func(s *story) {
			s.start(agent.Config{Mutators: []extension.Mutator{note{}}, Compaction: shorten{}, Model: answering(
				modeltest.Calls(call("c1", "echo", `{"text":"a"}`)), modeltest.Text("one"), modeltest.Text("two"), modeltest.Text("three"),
			)})
			for _, text := range []string{"first", "second", "third"} {
				s.say(text)
				if text == "first" {
					s.afterTools()
				}
				s.finished(content.Completed)
			}
		},
		"mutator_fails": func(s *story) {
			s.start(agent.Config{Mutators: []extension.Mutator{breaking{}}, Model: answering(modeltest.Text("never"))})
			s.say("work")
			if _, err := s.driver.Next(s.ctx); err == nil {
				s.t.Error("Next = nil, want the mutator's error")
			}
		},
		"fail_run": func(s *story) {
			s.start(agent.Config{OnToolError: agent.FailRun, Model: answering(
				modeltest.Calls(call("c1", "fail", `{}`), call("c2", "echo", `{"text":"b"}`)),
			)})
			s.say("work")
			if _, err := s.driver.Next(s.ctx); err == nil {
				s.t.Error("Next = nil, want the tool's error")
			}
		},
		"changes": func(s *story) {
			c := agent.Config{Model: answering(modeltest.Text("one"), modeltest.Text("two"))}
			s.start(c)
			s.say("first")
			s.finished(content.Completed)
			s.registry.Remove("fail")
			s.ask(commands.SetNextTurnCache{Cache: model.CacheRequest{Mode: "required", Key: "k"}})
			c.MaxParallel = 3
			s.start(c)
			s.say("second")
			s.finished(content.Completed)
		},
		"task": taskWithGate,
	}
}

func call(id, name, input string) content.ToolCall {
	return content.ToolCall{ID: content.CallID(id), Name: name, Input: json.RawMessage(input)}
}

// answering answers the n-th model call of a session with the n-th reply, and repeats the last.
func answering(replies ...model.Reply) *modeltest.Fake {
	n := 0
	return modeltest.NewFake("story", func(context.Context, model.Request) (model.Reply, error) {
		r := replies[min(n, len(replies)-1)]
		n++
		r.Usage = content.Usage{InputTokens: 10, OutputTokens: int64(n)}
		return r, nil
	})
}

// stubborn never answers a first attempt.
func stubborn() model.Model {
	return modeltest.NewFake("story", func(ctx context.Context, r model.Request) (model.Reply, error) {
		if r.Attempt == 1 {
			<-ctx.Done()
			return model.Reply{}, context.Cause(ctx)
		}
		return modeltest.Text("at last"), nil
	})
}

// failing fails with each class, then answers.
func failing(classes ...content.ErrorClass) model.Model {
	n := 0
	return modeltest.NewFake("story", func(context.Context, model.Request) (model.Reply, error) {
		if n++; n <= len(classes) {
			return model.Reply{}, &model.Error{Class: classes[n-1], Code: "c", Message: "no luck", RetryAfter: time.Duration(n) * time.Second}
		}
		return modeltest.Text("at last"), nil
	})
}

// halfway streams half of its answer.
type halfway struct{ *modeltest.Fake }

// Call ends only when ctx does.
func (halfway) Call(ctx context.Context, _ model.Request, emit func(content.Delta)) (model.Reply, error) {
	emit(content.Delta{Op: content.BeginPart, Kind: content.TextKind})
	emit(content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: "half an ans"})
	<-ctx.Done()
	return model.Reply{}, context.Cause(ctx)
}

// asking asks a person, with a minute to answer.
type asking struct{}

// Evaluate asks.
func (asking) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{Ruling: tool.Ask, RequestKind: "story.call", Reason: content.SensitivePath, TTL: time.Minute}, nil
}

// guard skips and stops calls whose input says so.
type guard struct{}

// Name is guard.
func (*guard) Name() string { return "guard" }

// Points are those of a guard.
func (*guard) Points() []extension.Point {
	return []extension.Point{extension.LoopIteration, extension.PreToolExecution, extension.PostLlmCall}
}

// OnEvent looks at a call's input.
func (*guard) OnEvent(_ context.Context, e extension.HookEvent) (extension.Action, error) {
	switch {
	case e.Point == extension.LoopIteration && e.Round == 1:
		return extension.Action{Kind: extension.Skip, Reason: "cannot be"}, nil
	case e.Call == nil:
	case string(e.Call.Input) == `{"text":"skip me"}`:
		return extension.Action{Kind: extension.Skip, Reason: "as it says"}, nil
	case string(e.Call.Input) == `{"text":"stop me"}`:
		return extension.Action{Kind: extension.Terminate, Reason: "as it says"}, nil
	}
	return extension.Action{}, nil
}

// brittle always fails.
type brittle struct{}

// Name is brittle.
func (brittle) Name() string { return "brittle" }

// Points are where it fails.
func (brittle) Points() []extension.Point { return []extension.Point{extension.PostToolExecution} }

// OnEvent fails.
func (brittle) OnEvent(context.Context, extension.HookEvent) (extension.Action, error) {
	return extension.Action{}, errors.New("down")
}

// note adds a line after every turn.
type note struct{}

// Name is note.
func (note) Name() string { return "note" }

// Mutate appends.
func (note) Mutate(_ context.Context, m *extension.Mutation) error {
	if m.Point == extension.AfterTurnEnded {
		m.Items = append(m.Items, content.NewItem(content.Context, content.TextPart("noted")))
	}
	return nil
}

// shorten keeps the last items before a model call.
type shorten struct{}

// Name is shorten.
func (shorten) Name() string { return "shorten" }

// Mutate drops old items.
func (shorten) Mutate(_ context.Context, m *extension.Mutation) error {
	if m.Point == extension.BeforeModel && len(m.Items) > 5 {
		m.Items = m.Items[len(m.Items)-2:]
		m.OldTokens, m.NewTokens, m.Usage = 100, 20, content.Usage{InputTokens: 100, OutputTokens: 20}
	}
	return nil
}

// breaking fails.
type breaking struct{}

// Name is breaking.
func (breaking) Name() string { return "breaking" }

// Mutate fails.
func (breaking) Mutate(context.Context, *extension.Mutation) error { return errors.New("down") }
