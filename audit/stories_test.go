package audit

import (
	"slices"
	"testing"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// stories are sessions that the core decided, one for each path.
func stories() map[string]func(*testing.T) *driven {
	all := map[string]func(*testing.T) *driven{}
	for _, add := range []func(map[string]func(*testing.T) *driven){modelStories, toolStories, endStories, taskStories} {
		add(all)
	}
	return all
}

func modelStories(all map[string]func(*testing.T) *driven) {
	all["plain, two turns"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{Transcript: []content.Item{content.SystemText("be brief")}, Input: []content.Item{content.UserText("hi")}})
		d.reply("hello")
		d.say("again")
		d.do(commands.SubmitInput{Items: []content.Item{content.UserText("meanwhile")}, OnBusy: events.Queue})
		d.reply("yes")
		d.reply("that too")
		d.do(commands.Park{})
		d.do(commands.Claim{Node: "b"})
		d.do(commands.Close{Reason: "done"})
		return d
	}
	all["stepped"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{Stepped: true})
		d.say("hi")
		d.do(commands.Continue{Wait: commands.WaitReady})
		d.reply("", "free", "free")
		d.preflight()
		d.result(d.place(1), content.StatusOK)
		d.result(d.place(2), content.StatusError)
		d.do(commands.SubmitInput{Items: []content.Item{content.UserText("steer")}})
		d.do(commands.Continue{Turn: "turn-1", Round: 1, Wait: commands.WaitYield})
		d.reply("done")
		d.finished(content.Completed)
		return d
	}
	all["retries, a crash, a failure"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{})
		d.say("hi")
		d.do(commands.ReportModelFailed{ModelCall: d.modelCall(), Class: content.ClassServer, Usage: content.Usage{InputTokens: 3}})
		d.do(commands.ReportTimer{Kind: commands.TimerRetry, ID: "turn-1"})
		d.do(commands.Claim{Node: "b"})
		d.do(commands.ReportModelFailed{ModelCall: d.modelCall(), Class: content.ClassAuth, Message: "bad key"})
		d.finished(content.Errored)
		d.say("again")
		d.reply("hello")
		return d
	}
	all["a provider's compaction"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{})
		d.say("hi")
		call := content.CallPart(content.ToolCall{ID: "x", Name: "free", Input: []byte(arguments)})
		d.do(commands.ReportReply{
			ModelCall: d.modelCall(), FinishReason: content.Compaction, Routing: []content.Routing{routingOf("free")},
			Items: []content.Item{content.NewItem(content.Assistant, content.TextPart("short"), call)},
		})
		d.reply("hello")
		d.finished(content.Completed)
		return d
	}
	all["hooks and mutators"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{Config: events.Config{
			Hooks:    []events.Registration{{Name: "guard", Points: []string{"post_llm_call", "pre_tool_execution"}}},
			Mutators: []events.Registration{{Name: "compact"}},
		}})
		d.say("hi")
		mutate := func(point string, dirty bool, items ...content.Item) {
			var round int
			if d.state.Turn != nil {
				round = d.state.Turn.Round
			} else {
				round = d.state.Last.Rounds
			}
			d.do(commands.ReportMutation{Turn: "turn-1", Round: round, Finished: events.MutationFinished{
				Mutator: "compact", Point: point, Dirty: dirty, Replacement: items, Usage: content.Usage{OutputTokens: 5},
			}})
		}
		mutate("before_model", true, content.SystemText("so far: nothing"), content.UserText("hi"))
		d.reply("", "free", "free")
		d.do(commands.ReportHooks{Turn: "turn-1", Round: 1, Answer: commands.HookAnswer{Point: "post_llm_call", Action: "continue"}})
		hook := func(n int, action string) commands.HookAnswer {
			return commands.HookAnswer{
				Point: "pre_tool_execution", Call: d.state.Turn.Calls[n].ID, Hook: "guard", Action: action, Reason: "no",
			}
		}
		d.preflight(hook(0, "skip"))
		d.do(commands.ReportHooks{Turn: "turn-1", Round: 1, Answer: hook(1, "continue")})
		d.result(d.place(2), content.StatusOK)
		mutate("after_tool_result", false)
		mutate("before_model", false)
		d.reply("secret")
		d.do(commands.ReportHooks{Turn: "turn-1", Round: 2, Answer: commands.HookAnswer{Point: "post_llm_call", Hook: "guard", Action: "terminate"}})
		d.finished(content.Terminated)
		mutate("after_turn_ended", false)
		return d
	}
}

func toolStories(all map[string]func(*testing.T) *driven) {
	all["questions: denied, approved, patched"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{})
		d.say("hi")
		d.reply("", "questioned", "free", "questioned", "questioned")
		d.preflight()
		calls := slices.Clone(d.state.Turn.Calls)
		d.do(commands.ResolveApproval{Call: calls[0].ID, Reason: "no"})
		d.do(commands.ResolveApproval{Call: calls[2].ID, Approve: true})
		d.do(commands.ResolveApproval{Call: calls[2].ID, Approve: true})
		d.checks = []commands.Check{{Place: calls[3].Place, Digest: tool.Digest([]byte(`{"a":2}`)), Questions: []commands.Question{{RequestKind: "three"}}}}
		d.do(commands.ResolveApproval{Call: calls[3].ID, Approve: true, Input: []byte(`{"a":2}`)})
		d.do(commands.ResolveApproval{Call: calls[3].ID, Approve: true})
		d.do(commands.ResolveApproval{Call: calls[3].ID, Approve: true})
		d.result(calls[1].Place, content.StatusOK)
		d.result(calls[2].Place, content.StatusOK)
		d.result(calls[3].Place, content.StatusOK)
		d.reply("done")
		d.finished(content.Completed)
		return d
	}
	all["questions: expired, late, policy"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{Config: events.Config{ApprovalTTL: time.Second, MaxParallel: 2}})
		d.say("hi")
		d.reply("", "forbidden", "questioned", "free", "free")
		d.preflight()
		a := d.state.PendingApprovals()[0].ID
		d.do(commands.ReportTimer{Kind: commands.TimerApproval, ID: string(a)})
		d.do(commands.ReportQuestion{Place: d.place(3), Attempt: 1, Question: commands.Question{RequestKind: "late", TTL: time.Hour}})
		d.result(d.place(4), content.StatusOK)
		d.do(commands.ResolveApproval{Approve: true})
		d.result(d.place(3), content.StatusOK)
		d.reply("done")
		return d
	}
	all["rules that ask, and change while a call waits"] = func(t *testing.T) *driven {
		rules := []events.Rule{{Tool: "free", Action: events.RuleAsk}}
		d := drive(t, commands.OpenSession{Config: events.Config{Rules: rules}})
		d.do(commands.SubmitInput{
			Items: []content.Item{content.UserText("hi")}, Options: &events.TurnOptions{Rules: [][]events.Rule{rules}},
		})
		d.reply("", "free")
		d.do(commands.ReportPreflight{Turn: d.state.Turn.ID, Round: 1, Checks: []commands.Check{{
			Place: d.place(1), Digest: tool.Digest([]byte(arguments)), Questions: []commands.Question{
				{RequestKind: permission.KindCall, Asker: events.AskedByTurn}, {RequestKind: permission.KindCall, Asker: events.AskedByRules},
			},
		}}})
		config := d.state.Config
		config.Rules, config.Digest = nil, "changed"
		d.do(commands.Claim{Config: &config})
		for len(d.state.PendingApprovals()) > 0 {
			d.do(commands.ResolveApproval{Approve: true})
		}
		d.result(d.place(1), content.StatusOK)
		d.do(commands.SubmitInput{
			Items: []content.Item{content.UserText("more")}, OnBusy: events.Steer, Options: &events.TurnOptions{Limits: &events.Limits{Requests: 2}},
		})
		d.reply("done")
		return d
	}
	all["parallel results in another order"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{Config: events.Config{MaxParallel: -1}})
		d.say("hi")
		d.reply("", "free", "free", "free")
		d.preflight()
		d.result(d.place(3), content.StatusOK)
		d.result(d.place(1), content.StatusOK)
		d.result(d.place(2), content.StatusOK)
		d.reply("done")
		return d
	}
	all["background and detached"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{})
		d.say("hi")
		d.reply("", "later", "free", "later")
		d.preflight()
		calls := slices.Clone(d.state.Turn.Calls)
		d.do(commands.DetachCall{Call: calls[1].ID})
		d.result(calls[0].Place, content.StatusOK)
		d.do(commands.Cancel{Scope: commands.ScopeCall, Call: calls[2].ID})
		d.reply("waiting")
		d.result(calls[1].Place, content.StatusError)
		d.reply("noted")
		d.reply("noted as well")
		d.finished(content.Completed)
		return d
	}
	all["timers of tools"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{Config: events.Config{Limits: events.Limits{WallClock: 30 * time.Second}}})
		d.say("hi")
		d.reply("", "detaching", "slow")
		d.preflight()
		p := d.place(1)
		d.do(commands.ReportTimer{Kind: commands.TimerDetach, ID: string(p)})
		d.sent += 10
		d.do(commands.ReportTimer{Kind: commands.TimerDeadline, ID: string(d.place(2))})
		d.sent += 30
		d.do(commands.ReportTimer{Kind: commands.TimerWallClock, ID: "turn-1"})
		d.finished(content.Limit)
		d.result(p, content.StatusOK)
		return d
	}
	all["a background call is retried between turns"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{})
		d.say("hi")
		d.reply("", "safe_later")
		d.preflight()
		p := content.PlaceOf(1, 1, 1)
		d.reply("waiting")
		d.do(commands.ReportAttemptLost{Place: p, Attempt: 1, Queue: "q"})
		d.do(commands.Claim{Lost: []content.Place{p}})
		d.result(p, content.StatusOK)
		d.reply("done")
		return d
	}
	all["lost attempts"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{})
		d.say("hi")
		d.reply("", "safe", "free")
		d.preflight()
		d.do(commands.ReportAttemptLost{Place: d.place(1), Attempt: 1, Queue: "q", Reason: "worker gone"})
		d.do(commands.ReportResult{Place: d.place(1), Attempt: 2, Queue: "q", Outcome: tool.Result{Result: content.NewResult("", "", content.StatusOK, "x")}})
		p := d.place(2)
		d.do(commands.Claim{Node: "b", Lost: []content.Place{p}})
		d.reply("hm")
		d.result(p, content.StatusOK)
		d.reply("so it did")
		return d
	}
}

func endStories(all map[string]func(*testing.T) *driven) {
	all["canceled: model, approval, tools"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{Config: events.Config{MaxParallel: 2}})
		cancel := func() { d.do(commands.Cancel{Scope: commands.ScopeTurn}) }
		d.say("one")
		cancel()
		d.do(commands.ReportModelStopped{ModelCall: d.modelCall(), Items: []content.Item{content.AssistantText("I was")}, Usage: content.Usage{OutputTokens: 1}})
		d.say("two")
		cancel()
		d.do(commands.ReportModelStopped{ModelCall: d.modelCall()})
		d.say("three")
		cancel()
		d.reply("", "free")
		d.say("four")
		d.reply("", "questioned", "free")
		d.preflight()
		cancel()
		d.say("five")
		d.reply("", "free", "free", "free")
		d.preflight()
		p := d.place(2)
		d.do(commands.SubmitInput{Items: []content.Item{content.UserText("six")}, OnBusy: events.Interrupt})
		d.reply("yes?")
		d.result(p, content.StatusOK)
		d.reply("ah, that")
		d.do(commands.Cancel{Scope: commands.ScopeSession})
		return d
	}
	all["the session is canceled, with a turn and a call in the background"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{})
		d.say("hi")
		d.reply("", "later", "free")
		d.preflight()
		d.do(commands.Cancel{Scope: commands.ScopeSession})
		d.finished(content.Cancelled)
		return d
	}
	for name, limits := range map[string]events.Limits{
		"rounds": {MaxRounds: 1}, "requests": {Requests: 1}, "tokens": {OutputTokens: 1}, "calls": {ToolCalls: 1},
		"no calls": {ToolCalls: -1}, "cost": {TotalTokens: 5},
	} {
		all["limit of "+name] = func(t *testing.T) *driven {
			d := drive(t, commands.OpenSession{Config: events.Config{Limits: limits}})
			for range 2 {
				d.say("hi")
				d.reply("", "free", "free")
				if d.state.Turn != nil {
					d.preflight()
					d.result(d.place(1), content.StatusOK)
					d.result(d.place(2), content.StatusOK)
				}
				d.finished(content.Limit)
			}
			return d
		}
	}
	all["limit of the session"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{Config: events.Config{SessionLimits: events.Limits{Requests: 2}}})
		for range 2 {
			d.say("hi")
			d.reply("hello")
		}
		d.say("hi")
		d.finished(content.Limit)
		return d
	}
	all["a failing tool ends the run"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{Config: events.Config{FailRun: true, MaxParallel: 2}})
		d.say("hi")
		d.reply("", "free", "free", "free")
		d.preflight()
		d.result(d.place(2), content.StatusError)
		d.finished(content.Errored)
		return d
	}
}

func taskStories(all map[string]func(*testing.T) *driven) {
	task := func(verifier ...string) commands.StartTask {
		return commands.StartTask{Spec: events.TaskSpec{Goal: "green", Verifier: verifier, MaxRetries: 1}}
	}
	all["a task that passes on the second attempt"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{Transcript: []content.Item{content.SystemText("be brief"), content.UserText("old")}})
		d.do(task("go", "test"))
		d.do(commands.ReportRecall{Task: "task-turn-1", Items: []content.Item{content.NewItem(content.Context, content.TextPart("known"))}})
		d.reply("done")
		d.do(commands.ReportVerify{Task: "task-turn-1", Finished: events.VerifyFinished{Attempt: 1, Output: "FAIL"}})
		d.reply("now")
		d.do(commands.ReportVerify{Task: "task-turn-1", Finished: events.VerifyFinished{Attempt: 2, Success: true}})
		d.do(commands.ReportMemory{Task: "task-turn-1"})
		d.finished(content.Completed)
		return d
	}
	all["a task without a verifier, one that fails, one that is canceled"] = func(t *testing.T) *driven {
		d := drive(t, commands.OpenSession{})
		d.do(task())
		d.do(commands.ReportRecall{Task: "task-turn-1"})
		d.reply("done")
		d.do(commands.ReportMemory{Task: "task-turn-1", Error: "disk full"})
		d.do(task("false"))
		d.do(commands.ReportRecall{Task: "task-turn-2"})
		for n := range 2 {
			d.reply("done")
			d.do(commands.ReportVerify{Task: "task-turn-2", Finished: events.VerifyFinished{Attempt: n + 1}})
		}
		d.do(task("false"))
		d.do(commands.ReportRecall{Task: "task-turn-3"})
		d.reply("done")
		d.do(commands.Cancel{Scope: commands.ScopeTurn})
		d.do(commands.ReportVerify{Task: "task-turn-3", Finished: events.VerifyFinished{Attempt: 1}})
		d.finished(content.Cancelled)
		return d
	}
}
