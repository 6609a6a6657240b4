package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func TestTheSampleJournalKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]book{"one turn": tools(), "two turns": tools().next(2, 6, "more")} {
		if found := Check(b.records(t)); found != nil {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// broken is a journal that breaks one promise, and what has to be said of it.
type broken struct {
	invariant string
	says      string // part of the message
	journal   book
}

func TestEveryBrokenPromiseIsNamed(t *testing.T) {
	t.Parallel()
	rows := slices.Concat(brokenSessions(), brokenTurns(), brokenModels(), brokenCalls(), brokenRuns(), brokenApprovals(),
		brokenBudgets(), brokenEnds(), brokenInputs(), brokenTasks(), brokenTranscripts())
	seen := map[string]bool{}
	for _, row := range rows {
		seen[row.invariant] = true
		t.Run(row.invariant+"/"+row.says, func(t *testing.T) {
			t.Parallel()
			found := Check(row.journal.records(t))
			if len(found) == 0 {
				t.Fatal("nothing was found")
			}
			named := slices.ContainsFunc(found, func(v Violation) bool {
				return v.Invariant == row.invariant && strings.Contains(v.Message, row.says) && v.Seq == found[0].Seq
			})
			if !named {
				t.Errorf("the first bad entry is not said to break %s (%s), but:\n%v", row.invariant, row.says, found)
			}
		})
	}
	for _, inv := range Invariants() {
		if inv.rule != nil && inv.Name != CauseOnce && !seen[inv.Name] {
			t.Errorf("no journal breaks %s", inv.Name)
		}
	}
}

func brokenSessions() []broken {
	begin := events.InputQueued{Items: []content.Item{content.UserText("x")}, Origin: events.FromHost}
	return []broken{
		{SessionBrackets, "opens a second time", tools().end(events.RunStarted{})},
		{SessionBrackets, "stands before", tools().before(events.KindRunStarted, 1, events.Warning{Code: "x"})},
		{SessionBrackets, "closes a second time", tools().end(events.SessionClosed{}).end(events.SessionClosed{})},
		{SessionBrackets, "behind the session's close", tools().end(events.SessionClosed{}).end(begin)},
		{ParkedAtRest, "while a model is being called", tools().after(events.KindModelCallStarted, 1, events.Parked{})},
	}
}

func brokenTurns() []broken {
	finish := events.TurnFinished{Turn: "turn-1", FinishReason: content.Completed}
	failed := events.RunFailed{Turn: "turn-1", Code: "x"}
	return []broken{
		{TurnBrackets, "starts without input", tools().drop(events.KindInputAccepted, 1)},
		{TurnBrackets, "which does not start", tools().drop(events.KindTurnStarted, 1)},
		{TurnBrackets, "no turn is open", tools().end(finish)},
		{TurnBrackets, "starts while turn-1 is open", tools().drop(events.KindTurnFinished, 1).next(2, 6, "x")},
		{TurnBrackets, "turn-3 starts where turn-2 is due", tools().next(3, 6, "x")},
		{TurnBrackets, "input is accepted into turn-3, want turn-2", tools().next(3, 6, "x")},
		{TurnBrackets, `RoundStarted of "turn-7"`, change(tools(), 2, func(e *events.RoundStarted) { e.Turn = "turn-7" })},
		{TurnBrackets, "RunFailed before it: false", change(tools(), 1, func(e *events.TurnFinished) { e.FinishReason = content.Errored })},
		{TurnBrackets, "RunFailed before it: true", tools().before(events.KindTurnFinished, 1, failed)},
		{TurnBrackets, "follows RunFailed", tools().after(events.KindRoundFinished, 1, failed)},
		{RoundNumbers, "round 3 starts where round 2 is due", change(tools(), 2, func(e *events.RoundStarted) { e.Round = 3 })},
		{RoundNumbers, "while round 1 is open", tools().drop(events.KindRoundFinished, 1)},
		{RoundNumbers, "no round was started", tools().drop(events.KindRoundStarted, 1)},
		{RoundNumbers, "round 1 is finished", tools().drop(events.KindRoundStarted, 2)},
		{RoundNumbers, "the open round is 2", change(tools(), 2, func(e *events.ReplyRecorded) { e.Round = 1 })},
		{RoundNumbers, "while call c2 is unanswered", tools().drop(events.KindToolResultReceived, 2)},
		{RoundNumbers, "without a reply", tools().after(events.KindModelCallStarted, 2, events.RoundFinished{Turn: "turn-1", Round: 2, TranscriptLen: 4})},
		{RoundNumbers, "finishes with 1 rounds, 2 were started", change(tools(), 1, func(e *events.TurnFinished) { e.Rounds = 1 })},
		{CancelHolds, "c2 starts after its cancel", tools().before(events.KindToolDispatched, 2, events.CancelRequested{Scope: "call", Target: "c2"})},
		{CancelHolds, "c1 starts after its cancel", tools().before(events.KindToolDispatched, 1, events.CancelRequested{Scope: "turn"})},
		{CancelHolds, "in a cancelled turn", tools().after(events.KindToolResultReceived, 2, events.CancelRequested{Scope: "session"})},
	}
}

func brokenModels() []broken {
	again := events.ModelCallStarted{Turn: "turn-1", Round: 1, Attempt: 2, TranscriptLen: 1}
	lost := events.ModelCallFailed{Turn: "turn-1", Round: 1, Attempt: 1, Class: content.ClassAuth}
	paid := events.UsageUpdated{Turn: "turn-1", Round: 2, Source: "model"}
	child := events.UsageUpdated{Turn: "turn-1", Round: 1, Source: "child", Call: "call_a", Requests: 1}
	return []broken{
		{UsageAddsUp, "call call_a is billed twice", tools().end(child).end(child)},
		{UsageAddsUp, "a model is billed for 1 requests", change(tools(), 1, func(e *events.UsageUpdated) { e.Requests = 1 })},
		{OneReply, "while attempt 1 is open", tools().after(events.KindModelCallStarted, 1, again)},
		{OneReply, "that has its reply", tools().after(events.KindUsageUpdated, 2, events.ModelCallStarted{Turn: "turn-1", Round: 2, Attempt: 2, TranscriptLen: 5})},
		{OneReply, "follows a failure that was final", tools().after(events.KindModelCallStarted, 1, lost, again)},
		{OneReply, "attempt 2 starts where attempt 1 is due", change(tools(), 1, func(e *events.ModelCallStarted) { e.Attempt = 2 })},
		{OneReply, "ReplyRecorded of attempt 4", change(tools(), 1, func(e *events.ReplyRecorded) { e.Attempt = 4 })},
		{OneReply, "ReplyRecorded of attempt 1", tools().drop(events.KindModelCallStarted, 1)},
		{UsageAddsUp, "finishes with usage", change(tools(), 1, func(e *events.TurnFinished) { e.Usage.InputTokens++ })},
		{UsageAddsUp, "recorded twice", tools().after(events.KindUsageUpdated, 2, paid)},
	}
}

func brokenCalls() []broken {
	c9 := events.ToolCallRequested{Turn: "turn-1", Round: 1, Call: toolCall("c9", "t1-r1-c3", "t")}
	twice := tools()
	twice[4][3] = twice[4][2]
	late := resultOf("c1", content.StatusOK)
	late.Late = true
	misplaced := resultOf("c1", content.StatusOK)
	misplaced.Round = 2
	detached := events.ToolDetached{Call: "c1", Placeholder: "…"}
	return []broken{
		{CallsAsReplied, "does not ask for it", tools().after(events.KindToolCallRequested, 2, c9)},
		{CallsAsReplied, "should be requested", tools().drop(events.KindToolCallRequested, 2)},
		{CallsAsReplied, "where the reply asks for c2", twice},
		{CallsAsReplied, "a call before it has that id", twice},
		{CallsAsReplied, "stands at t1-r1-c7, want t1-r1-c2", change(tools(), 2, func(e *events.ToolCallRequested) { e.Call.Place = "t1-r1-c7" })},
		{OneTerminalResult, "c1 gets a second result, after ok", tools().after(events.KindToolResultReceived, 1, resultOf("c1", content.StatusOK))},
		{OneTerminalResult, "never requested", tools().after(events.KindToolResultReceived, 1, resultOf("c7", content.StatusError))},
		{OneTerminalResult, "its outcome was known: ok", tools().after(events.KindToolResultReceived, 1, late)},
		{OneTerminalResult, "has no answer yet", tools().before(events.KindToolResultReceived, 1, late)},
		{OneTerminalResult, "second late result", tools().before(events.KindToolResultReceived, 1, detached, late, late)},
		{OneTerminalResult, "has to be late", tools().before(events.KindToolResultReceived, 1, detached)},
		{OneTerminalResult, "has its answer", tools().after(events.KindToolResultReceived, 1, detached)},
		{OneTerminalResult, "c7 is detached, but was never requested", tools().after(events.KindToolResultReceived, 1, events.ToolDetached{Call: "c7"})},
		{OneTerminalResult, "gets a result in turn-1, round 2", tools().drop(events.KindToolResultReceived, 1).before(events.KindToolDispatched, 2, misplaced)},
		{OneTerminalResult, "turn-1 finishes while call c2 is unanswered", tools()[:8].end(events.TurnFinished{
			Turn: "turn-1", FinishReason: content.Completed, Rounds: 1, Usage: content.Usage{InputTokens: 10, OutputTokens: 1},
		})},
	}
}

func brokenRuns() []broken {
	again := events.ToolDispatched{Call: "c1", Place: "t1-r1-c1", Attempt: 1, Digest: "d1"}
	second, third := again, again
	second.Attempt, third.Attempt = 2, 3
	lost := events.ToolAttemptLost{Call: "c1", Attempt: 1}
	return []broken{
		{DispatchFirst, "c1 is dropped as a dead letter, which it is not", tools().end(events.DeadLetterSettled{Call: "c1", Outcome: events.DeadDropped})},
		{DispatchFirst, "c2 has the result ok of a run", tools().drop(events.KindToolDispatched, 2)},
		{DispatchFirst, "has a result of attempt 5, the last one started was 1", change(tools(), 2, func(e *events.ToolResultReceived) { e.Attempt = 5 })},
		{DispatchFirst, "c7 starts, but was never requested", change(tools(), 2, func(e *events.ToolDispatched) { e.Call = "c7" })},
		{DispatchFirst, "starts at t9-r9-c9", change(tools(), 2, func(e *events.ToolDispatched) { e.Place = "t9-r9-c9" })},
		{DispatchFirst, "attempt 1 of call c1 starts twice", tools().after(events.KindToolDispatched, 1, again)},
		{DispatchFirst, "while attempt 1 is running", tools().after(events.KindToolDispatched, 1, second)},
		{DispatchFirst, "starts where attempt 2 is due", tools().after(events.KindToolDispatched, 1, lost, third)},
		{DispatchFirst, "has its result", tools().after(events.KindToolResultReceived, 1, second)},
		{DispatchFirst, "is lost, but was not running", tools().after(events.KindToolResultReceived, 1, lost)},
		{DispatchFirst, "c2 is detached, but was never started", tools().before(events.KindToolDispatched, 2, events.ToolDetached{Call: "c2"})},
	}
}

func brokenApprovals() []broken {
	settle := func(o events.Outcome) events.Event {
		return events.ApprovalResolved{Approval: "g1", Call: "c1", Outcome: o}
	}
	patched := change(tools(), 1, func(e *events.ApprovalResolved) { e.Input = []byte(`{"a":2}`) })
	other := tools().before(events.KindToolDispatched, 1, events.ToolDispatched{Call: "c2", Place: "t1-r1-c2", Attempt: 1})
	other = other.drop(events.KindApprovalResolved, 1)
	g2 := events.ApprovalRequired{Approval: events.Approval{ID: "g2", CallID: "c2", Turn: "turn-1", Round: 1}}
	return []broken{
		{ApprovalBeforeRun, "c1 starts while its approval g1 is undecided", tools().drop(events.KindApprovalResolved, 1)},
		{ApprovalBeforeRun, "c2 starts while approval g1 of its round is undecided", other},
		{ApprovalBeforeRun, "g1 was denied", change(tools(), 1, func(e *events.ApprovalResolved) { e.Outcome = events.Denied })},
		{ApprovalBeforeRun, "but runs with d9", change(tools(), 1, func(e *events.ToolDispatched) { e.Digest = "d9" })},
		{ApprovalBeforeRun, `approved with the arguments {"a":2}`, patched},
		{ApprovalOnce, "settled twice", tools().after(events.KindApprovalResolved, 1, settle(events.Moot))},
		{ApprovalOnce, "never asked for", tools().drop(events.KindApprovalRequired, 1)},
		{ApprovalOnce, "is settled for c2", change(tools(), 1, func(e *events.ApprovalResolved) { e.Call = "c2" })},
		{ApprovalOnce, "asked for twice", change(tools().after(events.KindApprovalRequired, 1, g2), 2, func(e *events.ApprovalRequired) { e.Approval.ID = "g1" })},
		{ApprovalOnce, "which is not open", tools().after(events.KindToolResultReceived, 2, g2)},
		{ApprovalOnce, "decided on arguments of digest d7", change(tools(), 1, func(e *events.ApprovalResolved) { e.Digest = "d7" })},
		{ApprovalOnce, "expired before its deadline", change(tools(), 1, func(e *events.ApprovalResolved) { e.Outcome, e.By = events.Expired, "" })},
		{ApprovalOnce, "ada is said to have decided", change(tools(), 1, func(e *events.ApprovalResolved) { e.Outcome = events.Expired })},
		{GrantHeld, "as if k /x was approved", change(tools(), 1, func(e *events.ToolDispatched) { e.Approved = []content.QuestionKey{{Kind: "k", Scope: "/x"}} })},
		{GrantHeld, "by g0, which was not given for always", change(tools(), 1, func(e *events.ApprovalResolved) { e.Grant = "g0" })},
		{GrantHeld, "g1 was denied for always", change(tools(), 1, func(e *events.ApprovalResolved) { e.Outcome, e.Always = events.Denied, true })},
		{GrantHeld, "for always with other arguments", change(tools(), 1, func(e *events.ApprovalResolved) { e.Input, e.Always = []byte(`{}`), true })},
		{GrantHeld, "no question was asked", change(tools(), 1, func(e *events.ApprovalResolved) { e.Grant, e.Always = "g1", true })},
		{GrantHeld, "g2 is about l  of t, but g1", granted("l", "ada")},
		{GrantHeld, "said to be bob's", granted("k", "bob")},
		{GrantHeld, "but not the session's rules alone ask", allowed("t", "ada", "")},
		{GrantHeld, "is about t, which grant-1 does not allow", allowed("fs_*", "ada", events.AskedByRules)},
		{GrantHeld, "said to be ada's, but grant-1 was bob's", allowed("*", "bob", events.AskedByRules)},
		{GrantHeld, "not the first of that name: true", allowed("*", "ada", events.AskedByRules).end(events.ToolsAllowed{Grant: "grant-1", Tools: []string{"x"}})},
		{RulesHeld, "neither allow nor had approved", ruledBy(events.RuleDeny)},
		{RulesHeld, "neither allow nor had approved", ruledBy(events.RuleAsk)},
		{RulesHeld, "its turn's rules deny", narrowedBy(events.RuleDeny)},
		{RulesHeld, "its turn's rules wanted approved", narrowedBy(events.RuleAsk)},
		{ApprovalOnce, "but approval g2 is undecided", tools().before(events.KindToolResultReceived, 2, g2)},
	}
}

// granted is tools with a second gate that the first one's approval for always is
// said to open.
func granted(kind, by string) book {
	g2 := events.Approval{ID: "g2", CallID: "c2", Turn: "turn-1", Round: 1, Tool: "t", RequestKind: kind}
	b := change(tools(), 1, func(e *events.ApprovalResolved) { e.Always = true })
	return b.before(events.KindToolDispatched, 2, events.ApprovalRequired{Approval: g2},
		events.ApprovalResolved{Approval: "g2", Call: "c2", Outcome: events.Approved, By: by, Grant: "g1"})
}

// allowed is tools with a gate that an allowance is said to open.
func allowed(pattern, by string, asker events.Asker) book {
	b := change(tools(), 1, func(e *events.ApprovalRequired) { e.Approval.Asker, e.Approval.Tool = asker, "t" })
	b = change(b, 1, func(e *events.ApprovalResolved) { e.Grant, e.By = "grant-1", "ada" })
	return b.before(events.KindApprovalRequired, 1, events.ToolsAllowed{Grant: "grant-1", Tools: []string{pattern}, By: by})
}

// ruledBy is tools in a session with a rule for all calls.
func ruledBy(a events.Action) book {
	return change(tools(), 1, func(e *events.RunStarted) { e.Config.Rules = []events.Rule{{Tool: "*", Action: a}} })
}

// narrowedBy is tools in a turn with a rule for all calls.
func narrowedBy(a events.Action) book {
	return change(tools(), 1, func(e *events.TurnStarted) {
		e.Options = &events.TurnOptions{Rules: [][]events.Rule{{{Tool: "*", Action: a}}}}
	})
}

func brokenBudgets() []broken {
	limited := func(l events.Limits) book {
		return change(tools(), 1, func(e *events.RunStarted) { e.Config.Limits = l })
	}
	session := func(l events.Limits) book {
		return change(tools(), 1, func(e *events.RunStarted) { e.Config.SessionLimits = l })
	}
	reached := events.LimitReached{Kind: events.LimitCost, Limit: 1, Used: 2, Scope: "turn"}
	options := change(tools(), 1, func(e *events.TurnStarted) {
		e.Options = &events.TurnOptions{Limits: &events.Limits{MaxRounds: 1}}
	})
	helped := func(b book) book {
		return b.before(events.KindRoundFinished, 1, events.UsageUpdated{Turn: "turn-1", Round: 1, Source: "child", Requests: 3})
	}
	return []broken{
		{BudgetHeld, "turn's limit of requests", helped(limited(events.Limits{Requests: 4}))},
		{BudgetHeld, "session's limit of requests", helped(session(events.Limits{Requests: 4}))},
		{BudgetHeld, "turn's limit of rounds", limited(events.Limits{MaxRounds: 1})},
		{BudgetHeld, "turn's limit of rounds", options},
		{BudgetHeld, "turn's limit of rounds", limited(events.Limits{MaxRounds: -1})},
		{BudgetHeld, "turn's limit of requests", limited(events.Limits{Requests: 1})},
		{BudgetHeld, "session's limit of requests", session(events.Limits{Requests: 1})},
		{BudgetHeld, "turn's limit of tool calls", limited(events.Limits{ToolCalls: 1})},
		{BudgetHeld, "turn's limit of tokens or cost", limited(events.Limits{InputTokens: 9})},
		{BudgetHeld, "session's limit of tokens or cost", session(events.Limits{TotalTokens: 10})},
		{BudgetHeld, "after the cost limit was reached", tools().after(events.KindRoundFinished, 1, reached)},
		{BudgetHeld, "in a turn that the cost limit ended", tools().before(events.KindTurnFinished, 1, reached, reached)},
		{BudgetHeld, "finishes as completed after", tools().before(events.KindTurnFinished, 1, reached)},
		{BudgetHeld, "is said to be reached by 1", tools().before(events.KindTurnFinished, 1, events.LimitReached{Kind: events.LimitCost, Limit: 1, Used: 1})},
	}
}

func brokenInputs() []broken {
	items := []content.Item{content.UserText("hi")}
	started := events.MutationStarted{Turn: "turn-1", Mutator: "m", Point: "before_model"}
	done := events.MutationFinished{Turn: "turn-1", Mutator: "m", Point: "before_model"}
	sneaky, failing := done, done
	sneaky.Replacement = items
	failing.Dirty, failing.Error, failing.Replacement = true, "x", items
	return []broken{
		{InputOnce, "is not in the queue", tools().drop(events.KindInputQueued, 1)},
		{InputOnce, "is not in the queue", tools().after(events.KindRoundFinished, 1, events.InputAccepted{Turn: "turn-1", Items: items, Origin: events.FromHost})},
		{InputOnce, "1 notifications are accepted", tools().after(events.KindRoundFinished, 1, events.InputAccepted{
			Turn: "turn-1", Items: items, Origin: events.FromNotification,
		})},
		{MutationsPaired, "without having started", tools().after(events.KindRoundStarted, 1, done)},
		{MutationsPaired, "while m is running", tools().after(events.KindRoundStarted, 1, started, started)},
		{MutationsPaired, "dirty false", tools().after(events.KindRoundStarted, 1, started, sneaky)},
		{MutationsPaired, `error "x"`, tools().after(events.KindRoundStarted, 1, started, failing)},
	}
}

func brokenTasks() []broken {
	within := func(evs ...events.Event) book {
		return tools().before(events.KindTurnFinished, 1, append([]events.Event{events.TaskStarted{Task: "t"}}, evs...)...)
	}
	started, failed := events.VerifyStarted{Attempt: 1}, events.VerifyFinished{Attempt: 1, Status: "failed"}
	back := events.InputAccepted{Turn: "turn-1", Items: []content.Item{content.UserText("again")}, Origin: events.FromVerifier}
	return []broken{
		{GateHeld, "inside another", within(events.TaskStarted{Task: "u"})},
		{GateHeld, "starts, but no task is open", tools().before(events.KindTurnFinished, 1, started)},
		{GateHeld, "while one is running", within(started, events.VerifyStarted{Attempt: 2})},
		{GateHeld, "verification 2 starts where verification 1 is due", within(events.VerifyStarted{Attempt: 2})},
		{GateHeld, "for a task with 0 retries", within(started, failed, events.VerifyStarted{Attempt: 2})},
		{GateHeld, "passed, with success false", within(started, events.VerifyFinished{Attempt: 1, Status: "passed"})},
		{GateHeld, "the one that started last is 1", within(started, events.VerifyFinished{Attempt: 3, Status: "failed"})},
		{GateHeld, "but did not run", within(failed)},
		{GateHeld, "and had one before", within(started, failed, failed)},
		{GateHeld, "no verification failed", within(back)},
		{GateHeld, "recalled twice", within(events.MemoryRecalled{}, events.MemoryRecalled{})},
		{GateHeld, "stored, but no task is open", tools().before(events.KindTurnFinished, 1, events.MemoryStored{})},
		{GateHeld, "called verified", within(events.TaskFinished{Status: "done", Verified: true})},
		{GateHeld, "while its verification is running", within(started, events.TaskFinished{Status: "failed"})},
		{GateHeld, "was not started", tools().before(events.KindTurnFinished, 1, events.TaskFinished{Status: "done"})},
		{GateHeld, "while its task is open", within()},
	}
}

func brokenEnds() []broken {
	ends := func(r content.FinishReason) book {
		return change(tools(), 1, func(e *events.TurnFinished) { e.FinishReason = r })
	}
	answered := func(s content.Status) book {
		return change(tools(), 2, func(e *events.ToolResultReceived) {
			e.Attempt, e.Result.Status = 0, s
		})
	}
	hook := events.HookDecided{Turn: "turn-1", Round: 1, Point: "pre_llm_call", Action: "continue"}
	unanswered := tools().drop(events.KindReplyRecorded, 2)
	return []broken{
		{EndsHaveCauses, "finishes as cancelled", ends(content.Cancelled)},
		{EndsHaveCauses, "finishes as limit", ends(content.Limit)},
		{EndsHaveCauses, "finishes as terminated", ends(content.Terminated)},
		{EndsHaveCauses, "finishes as blocked", ends(content.Blocked)},
		{EndsHaveCauses, `a reply that ended as "max_tokens"`, change(tools(), 2, func(e *events.ReplyRecorded) { e.FinishReason = content.MaxTokens })},
		{EndsHaveCauses, "answered as skipped", answered(content.StatusSkipped)},
		{EndsHaveCauses, "answered as expired", answered(content.StatusExpired)},
		{EndsHaveCauses, "answered as limit", answered(content.StatusLimit)},
		{EndsHaveCauses, "answered as terminated", answered(content.StatusTerminated)},
		{EndsHaveCauses, "answered as cancelled", answered(content.StatusCancelled)},
		{EndsHaveCauses, "no cancel is recorded", change(tools(), 2, func(e *events.ReplyRecorded) { e.Interrupted = true })},
		{OneReply, "finishes as completed while attempt 1 is open", unanswered},
		{HooksOnce, "asked twice in round 1", tools().after(events.KindRoundStarted, 1, hook, hook)},
		{UsageAddsUp, "a mutator is billed", tools().after(events.KindUsageUpdated, 2, events.UsageUpdated{
			Turn: "turn-1", Round: 2, Source: "compaction", Usage: content.Usage{InputTokens: 1},
		})},
	}
}

func brokenTranscripts() []broken {
	preloaded := func(items ...content.Item) book {
		b := change(tools(), 1, func(e *events.RunStarted) { e.Transcript = items })
		return change(b, 1, func(e *events.ModelCallStarted) { e.TranscriptLen += len(items) })
	}
	call := content.NewItem(content.Assistant, content.CallPart(toolCall("x", "", "t")))
	result := content.NewItem(content.Tool, content.ResultPart(content.NewResult("x", "t", content.StatusOK, "")))
	contextOnly := tools()
	for _, i := range []int{2, 3} {
		contextOnly[i] = slices.Clone(contextOnly[i])
	}
	items := []content.Item{content.NewItem(content.Context, content.TextPart("x"))}
	contextOnly = change(contextOnly, 1, func(e *events.InputQueued) { e.Items = items })
	contextOnly = change(contextOnly, 1, func(e *events.InputAccepted) { e.Items = items })
	emptied := tools().before(events.KindModelCallStarted, 1, events.MutationStarted{Turn: "turn-1", Mutator: "m", Point: "before_model"},
		events.MutationFinished{Turn: "turn-1", Mutator: "m", Point: "before_model", Dirty: true})
	answered := tools()
	answered = answered.after(events.KindUsageUpdated, 2, events.RoundFinished{Turn: "turn-1", Round: 2, TranscriptLen: 5},
		events.RoundStarted{Turn: "turn-1", Round: 3}, events.ModelCallStarted{Turn: "turn-1", Round: 3, Attempt: 1, TranscriptLen: 5})
	return []broken{
		{PairedCalls, "call x has no result", preloaded(call)},
		{PairedCalls, "has no call before it", preloaded(result)},
		{PairedCalls, "has two results", preloaded(call, result, result)},
		{PairedCalls, "is made twice", preloaded(call, result, call)},
		{RunnableTail, "ends in an item of kind context", contextOnly},
		{RunnableTail, "ends in an item of kind assistant", answered},
		{RunnableTail, "an empty transcript", emptied},
		{TranscriptIsAFold, "has 7 items, the facts add up to 1", change(tools(), 1, func(e *events.ModelCallStarted) { e.TranscriptLen = 7 })},
		{TranscriptIsAFold, "has 3 items, the facts add up to 4", change(tools(), 1, func(e *events.RoundFinished) { e.TranscriptLen = 3 })},
	}
}
