package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

func TestTheSampleJournalKeepsEveryInvariant(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]book{"one turn": tools(), "two turns": tools().next(2, 6, "more")} {
		if found := check(b.records(t)); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// broken is a journal that breaks one invariant.
type broken struct {
	invariant string
	message   string // a part of it
	journal   book
}

func TestEveryBrokenInvariantIsNamed(t *testing.T) {
	t.Parallel()
	rows := slices.Concat(brokenSessions(), brokenTurns(), brokenModels(), brokenCalls(), brokenRuns(), brokenApprovals(),
		brokenBudgets(), brokenEnds(), brokenInputs(), brokenTasks(), brokenTranscripts())
	seen := map[string]bool{}
	for _, row := range rows {
		seen[row.invariant] = true
		t.Run(row.invariant+"/"+row.message, func(t *testing.T) {
			t.Parallel()
			found := check(row.journal.records(t))
			if len(found) == 0 {
				t.Fatal("nothing was found")
			}
			named := slices.ContainsFunc(found, func(v verdict.Fault) bool {
				return v.Invariant == row.invariant && strings.Contains(v.What, row.message) && v.Seq == found[0].Seq
			})
			if !named {
				t.Errorf("the first bad entry does not break %s (%s), but:\n%v", row.invariant, row.message, found)
			}
		})
	}
	for _, inv := range invariants() {
		if inv.rule != nil && inv.name != "cause-once" && !seen[inv.name] {
			t.Errorf("no journal breaks %s", inv.name)
		}
	}
}

func TestArchitectureDescribesEveryInvariant(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Invariants() {
		if !bytes.Contains(text, []byte("\n| `"+name+"` | ")) {
			t.Errorf("ARCHITECTURE.md does not say what %s means", name)
		}
	}
}

func brokenSessions() []broken {
	begin := events.InputQueued{Items: []content.Item{content.UserText("x")}, Origin: events.FromHost}
	return []broken{
		{"session-brackets", "opens a second time", tools().end(events.RunStarted{})},
		{"session-brackets", "comes before", tools().before(events.KindRunStarted, 1, events.Warning{Code: "x"})},
		{"session-brackets", "closes a second time", tools().end(events.SessionClosed{}).end(events.SessionClosed{})},
		{"session-brackets", "follows the session's close", tools().end(events.SessionClosed{}).end(begin)},
		{"parked-at-rest", "while a model is being called", tools().after(events.KindModelCallStarted, 1, events.Parked{})},
	}
}

func brokenTurns() []broken {
	finish := events.TurnFinished{Turn: "turn-1", FinishReason: content.Completed}
	failed := events.RunFailed{Turn: "turn-1", Code: "x"}
	return []broken{
		{"turn-brackets", "starts without input", tools().drop(events.KindInputAccepted, 1)},
		{"turn-brackets", "but the turn does not start", tools().drop(events.KindTurnStarted, 1)},
		{"turn-brackets", "no turn is open", tools().end(finish)},
		{"turn-brackets", "starts while turn-1 is open", tools().drop(events.KindTurnFinished, 1).next(2, 6, "x")},
		{"turn-brackets", "turn-3 starts, want turn-2", tools().next(3, 6, "x")},
		{"turn-brackets", "input is accepted into turn-3, want turn-2", tools().next(3, 6, "x")},
		{"turn-brackets", `RoundStarted of "turn-7"`, change(tools(), 2, func(e *events.RoundStarted) { e.Turn = "turn-7" })},
		{"turn-brackets", "RunFailed before it: false", change(tools(), 1, func(e *events.TurnFinished) { e.FinishReason = content.Errored })},
		{"turn-brackets", "RunFailed before it: true", tools().before(events.KindTurnFinished, 1, failed)},
		{"turn-brackets", "follows RunFailed", tools().after(events.KindRoundFinished, 1, failed)},
		{"round-numbers", "round 3 starts, want round 2", change(tools(), 2, func(e *events.RoundStarted) { e.Round = 3 })},
		{"round-numbers", "while round 1 is open", tools().drop(events.KindRoundFinished, 1)},
		{"round-numbers", "no round has started", tools().drop(events.KindRoundStarted, 1)},
		{"round-numbers", "round 1 is finished", tools().drop(events.KindRoundStarted, 2)},
		{"round-numbers", "the open round is 2", change(tools(), 2, func(e *events.ReplyRecorded) { e.Round = 1 })},
		{"round-numbers", "while call c2 is unanswered", tools().drop(events.KindToolResultReceived, 2)},
		{"round-numbers", "without a reply", tools().after(events.KindModelCallStarted, 2, events.RoundFinished{Turn: "turn-1", Round: 2, TranscriptLen: 4})},
		{"round-numbers", "finishes with 1 rounds, but 2 started", change(tools(), 1, func(e *events.TurnFinished) { e.Rounds = 1 })},
		{"cancel-holds", "c2 starts after its cancel", tools().before(events.KindToolDispatched, 2, events.CancelRequested{Scope: "call", Target: "c2"})},
		{"cancel-holds", "c1 starts after its cancel", tools().before(events.KindToolDispatched, 1, events.CancelRequested{Scope: "turn"})},
		{"cancel-holds", "in a canceled turn", tools().after(events.KindToolResultReceived, 2, events.CancelRequested{Scope: "session"})},
	}
}

func brokenModels() []broken {
	again := events.ModelCallStarted{Turn: "turn-1", Round: 1, Attempt: 2, TranscriptLen: 1}
	lost := events.ModelCallFailed{Turn: "turn-1", Round: 1, Attempt: 1, Class: content.ClassAuth}
	paid := events.UsageUpdated{Turn: "turn-1", Round: 2, Source: "model"}
	child := events.UsageUpdated{Turn: "turn-1", Round: 1, Source: "child", Call: "call_a", Requests: 1}
	return []broken{
		{"usage-adds-up", "call call_a is billed twice", tools().end(child).end(child)},
		{"usage-adds-up", "a model is billed for 1 requests", change(tools(), 1, func(e *events.UsageUpdated) { e.Requests = 1 })},
		{"one-reply-per-round", "while attempt 1 is open", tools().after(events.KindModelCallStarted, 1, again)},
		{"one-reply-per-round", "that already has its reply", tools().after(events.KindUsageUpdated, 2, events.ModelCallStarted{Turn: "turn-1", Round: 2, Attempt: 2, TranscriptLen: 5})},
		{"one-reply-per-round", "follows a failure that was final", tools().after(events.KindModelCallStarted, 1, lost, again)},
		{"one-reply-per-round", "attempt 2 starts, want attempt 1", change(tools(), 1, func(e *events.ModelCallStarted) { e.Attempt = 2 })},
		{"one-reply-per-round", "ReplyRecorded of attempt 4", change(tools(), 1, func(e *events.ReplyRecorded) { e.Attempt = 4 })},
		{"one-reply-per-round", "ReplyRecorded of attempt 1", tools().drop(events.KindModelCallStarted, 1)},
		{"usage-adds-up", "finishes with usage", change(tools(), 1, func(e *events.TurnFinished) { e.Usage.InputTokens++ })},
		{"usage-adds-up", "recorded twice", tools().after(events.KindUsageUpdated, 2, paid)},
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
		{"calls-as-replied", "does not ask for it", tools().after(events.KindToolCallRequested, 2, c9)},
		{"calls-as-replied", "of the reply is requested", tools().drop(events.KindToolCallRequested, 2)},
		{"calls-as-replied", "but the reply asks for c2", twice},
		{"calls-as-replied", "an earlier call has that id", twice},
		{"calls-as-replied", "is at t1-r1-c7, want t1-r1-c2", change(tools(), 2, func(e *events.ToolCallRequested) { e.Call.Place = "t1-r1-c7" })},
		{"one-terminal-result", "c1 gets a second result, after ok", tools().after(events.KindToolResultReceived, 1, resultOf("c1", content.StatusOK))},
		{"one-terminal-result", "never requested", tools().after(events.KindToolResultReceived, 1, resultOf("c7", content.StatusError))},
		{"one-terminal-result", "its outcome was known: ok", tools().after(events.KindToolResultReceived, 1, late)},
		{"one-terminal-result", "has no answer yet", tools().before(events.KindToolResultReceived, 1, late)},
		{"one-terminal-result", "second late result", tools().before(events.KindToolResultReceived, 1, detached, late, late)},
		{"one-terminal-result", "its outcome is not late", tools().before(events.KindToolResultReceived, 1, detached)},
		{"one-terminal-result", "has its answer", tools().after(events.KindToolResultReceived, 1, detached)},
		{"one-terminal-result", "c7 is detached, but was never requested", tools().after(events.KindToolResultReceived, 1, events.ToolDetached{Call: "c7"})},
		{"one-terminal-result", "gets a result in turn-1, round 2", tools().drop(events.KindToolResultReceived, 1).before(events.KindToolDispatched, 2, misplaced)},
		{"one-terminal-result", "turn-1 finishes while call c2 is unanswered", tools()[:8].end(events.TurnFinished{
			Turn: "turn-1", FinishReason: content.Completed, Rounds: 1, Usage: content.Usage{InputTokens: 10, OutputTokens: 1},
		})},
	}
}

func brokenRuns() []broken {
	again := events.ToolDispatched{Call: "c1", Place: "t1-r1-c1", Attempt: 1, Digest: tool.Digest(nil)}
	second, third := again, again
	second.Attempt, third.Attempt = 2, 3
	lost := events.ToolAttemptLost{Call: "c1", Attempt: 1}
	return []broken{
		{"dispatch-before-result", "c1 is dropped as a dead letter, but is not one", tools().end(events.DeadLetterSettled{Call: "c1", Outcome: events.DeadDropped})},
		{"dispatch-before-result", "c2 has the result ok of a run", tools().drop(events.KindToolDispatched, 2)},
		{"dispatch-before-result", "has a result of attempt 5, but the last one to start was 1", change(tools(), 2, func(e *events.ToolResultReceived) { e.Attempt = 5 })},
		{"dispatch-before-result", "c7 starts, but was never requested", change(tools(), 2, func(e *events.ToolDispatched) { e.Call = "c7" })},
		{"dispatch-before-result", "starts at t9-r9-c9", change(tools(), 2, func(e *events.ToolDispatched) { e.Place = "t9-r9-c9" })},
		{"dispatch-before-result", "attempt 1 of call c1 starts twice", tools().after(events.KindToolDispatched, 1, again)},
		{"dispatch-before-result", "while attempt 1 is running", tools().after(events.KindToolDispatched, 1, second)},
		{"dispatch-before-result", "starts, want attempt 2", tools().after(events.KindToolDispatched, 1, lost, third)},
		{"dispatch-before-result", "has its result", tools().after(events.KindToolResultReceived, 1, second)},
		{"dispatch-before-result", "is lost, but was not running", tools().after(events.KindToolResultReceived, 1, lost)},
		{"dispatch-before-result", "c2 is detached, but was never started", tools().before(events.KindToolDispatched, 2, events.ToolDetached{Call: "c2"})},
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
		{"approval-before-run", "c1 starts while its approval g1 is undecided", tools().drop(events.KindApprovalResolved, 1)},
		{"approval-before-run", "c2 starts while approval g1 of its round is undecided", other},
		{"approval-before-run", "g1 was denied", change(tools(), 1, func(e *events.ApprovalResolved) { e.Outcome = events.Denied })},
		{"approval-before-run", "but runs with d9", change(tools(), 1, func(e *events.ToolDispatched) { e.Digest = "d9" })},
		{"approval-before-run", `approved with the arguments {"a":2}`, patched},
		{"approval-once", "settled twice", tools().after(events.KindApprovalResolved, 1, settle(events.Moot))},
		{"approval-once", "never requested", tools().drop(events.KindApprovalRequired, 1)},
		{"approval-once", "is settled for c2", change(tools(), 1, func(e *events.ApprovalResolved) { e.Call = "c2" })},
		{"approval-once", "requested twice", change(tools().after(events.KindApprovalRequired, 1, g2), 2, func(e *events.ApprovalRequired) { e.Approval.ID = "g1" })},
		{"approval-once", "which is not open", tools().after(events.KindToolResultReceived, 2, g2)},
		{"digests-fit", "is shown to approvers with arguments", change(tools(), 1, func(e *events.ApprovalRequired) { e.Approval.Input = []byte(`{"a":2}`) })},
		{"digests-fit", "runs with arguments", change(tools(), 1, func(e *events.ToolDispatched) { e.Input = []byte(`{"a":2}`) })},
		{"digests-fit", "is requested with arguments", change(tools(), 1, func(e *events.ToolCallRequested) { e.Routing.Digest = tool.Digest([]byte(`{"a":2}`)) })},
		{"approval-once", "decided on arguments of digest d7", change(tools(), 1, func(e *events.ApprovalResolved) { e.Digest = "d7" })},
		{"approval-once", "expired before its deadline", change(tools(), 1, func(e *events.ApprovalResolved) { e.Outcome, e.By = events.Expired, "" })},
		{"approval-once", "ada (claimed) is recorded as its decider", change(tools(), 1, func(e *events.ApprovalResolved) { e.Outcome = events.Expired })},
		{"grant-held", "settled by g9, which is not an approval", change(granted("call", "ada"), 2, func(e *events.ApprovalResolved) { e.Grant = "g9" })},
		{"grant-held", "with k /x as approved, but it was not", change(tools(), 1, func(e *events.ToolDispatched) { e.Approved = []content.QuestionKey{{Kind: "k", Scope: "/x"}} })},
		{"grant-held", "by g0, which is not an approval for always", change(tools(), 1, func(e *events.ApprovalResolved) { e.Grant = "g0" })},
		{"grant-held", "g1 was denied for always", change(tools(), 1, func(e *events.ApprovalResolved) { e.Outcome, e.Always = events.Denied, true })},
		{"grant-held", "for always with other arguments", change(tools(), 1, func(e *events.ApprovalResolved) { e.Input, e.Always = []byte(`{}`), true })},
		{"grant-held", "a person was not asked", change(tools(), 1, func(e *events.ApprovalResolved) { e.Grant, e.Always = "g1", true })},
		{"grant-held", "g2 is about l  of t, but g1", granted("l", "ada")},
		{"grant-held", "recorded as decided by bob", granted("k", "bob")},
		{"grant-held", "by eve (claims to be ada), but g1 was given by ada (claimed)", change(granted("k", "ada"), 2, func(e *events.ApprovalResolved) { e.User = "eve" })},
		{"grant-held", "is not only the session's rules'", allowed("t", "ada", "")},
		{"grant-held", "is about t, which grant-1 does not allow", allowed("fs_*", "ada", events.AskedByRules)},
		{"grant-held", "by ada (claimed), but grant-1 was given by bob (claimed)", allowed("*", "bob", events.AskedByRules)},
		{"grant-held", "by ada (claimed), but grant-1 was given by ada", change(allowed("*", "ada", events.AskedByRules), 1, func(e *events.ToolsAllowed) { e.User = "ada" })},
		{"grant-held", "with a name that is in use: true", allowed("*", "ada", events.AskedByRules).end(events.ToolsAllowed{Grant: "grant-1", Tools: []string{"x"}})},
		{"rules-held", "do not allow it and it was not approved", ruledBy(events.RuleDeny)},
		{"rules-held", "do not allow it and it was not approved", ruledBy(events.RuleAsk)},
		{"rules-held", "but the policy denies it", tools().before(events.KindToolDispatched, 1, policyOf(events.RuleDeny))},
		{"rules-held", "but the policy does not allow it", tools().after(events.KindRunStarted, 1, policyOf(events.RuleAsk))},
		{"rules-held", "which has no such rule", because(events.GroundOf(events.ByPolicy, events.Rule{Tool: "*", Action: events.RuleAllow}))},
		{"rules-held", "by approval g1, which did not approve it", because(events.Ground{By: events.ByApproval, Name: "g1"})},
		{"rules-held", "its turn's rules deny it", narrowedBy(events.RuleDeny)},
		{"rules-held", "its turn's rules still need an approval", narrowedBy(events.RuleAsk)},
		{"approval-once", "but approval g2 is undecided", tools().before(events.KindToolResultReceived, 2, g2)},
	}
}

// granted is tools with a second question that the first one's approval for always
// answers.
func granted(kind, by string) book {
	g2 := events.Approval{ID: "g2", CallID: "c2", Turn: "turn-1", Round: 1, Tool: "t", RequestKind: kind}
	b := change(tools(), 1, func(e *events.ApprovalResolved) { e.Always = true })
	return b.before(events.KindToolDispatched, 2, events.ApprovalRequired{Approval: g2},
		events.ApprovalResolved{Approval: "g2", Call: "c2", Outcome: events.Approved, By: by, Grant: "g1"})
}

// allowed is tools with a question that an allowance answers.
func allowed(pattern, by string, asker events.Asker) book {
	b := change(tools(), 1, func(e *events.ApprovalRequired) { e.Approval.Asker, e.Approval.Tool = asker, "t" })
	b = change(b, 1, func(e *events.ApprovalResolved) { e.Grant, e.By = "grant-1", "ada" })
	return b.before(events.KindApprovalRequired, 1, events.ToolsAllowed{Grant: "grant-1", Tools: []string{pattern}, By: by})
}

// because is tools with a second call that starts on a false ground.
func because(g events.Ground) book {
	return change(tools(), 2, func(e *events.ToolDispatched) { e.Because = []events.Ground{g} })
}

// ruledBy is tools in a session with a rule for all calls.
func ruledBy(a events.Action) book {
	return change(tools(), 1, func(e *events.RunStarted) { e.Config.Rules = []events.Rule{{Tool: "*", Action: a}} })
}

// policyOf is a policy with a rule for all calls.
func policyOf(a events.Action) events.Event {
	return events.PolicyApplied{Policy: events.Policy{Rules: [][]events.Rule{{{Tool: "*", Action: a}}}}}
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
	lowered := events.ConfigChanged{Config: events.Config{Limits: events.Limits{MaxRounds: 1}}}
	return []broken{
		{"budget-held", "the turn's max turns limit", tools().after(events.KindRoundFinished, 1, lowered)},
		{"budget-held", "the turn's request limit", helped(limited(events.Limits{Requests: 4}))},
		{"budget-held", "the session's request limit", helped(session(events.Limits{Requests: 4}))},
		{"budget-held", "the turn's max turns limit", limited(events.Limits{MaxRounds: 1})},
		{"budget-held", "the turn's max turns limit", options},
		{"budget-held", "the turn's max turns limit", limited(events.Limits{MaxRounds: -1})},
		{"budget-held", "the turn's request limit", limited(events.Limits{Requests: 1})},
		{"budget-held", "the session's request limit", session(events.Limits{Requests: 1})},
		{"budget-held", "the turn's tool call limit", limited(events.Limits{ToolCalls: 1})},
		{"budget-held", "the turn's input token limit", limited(events.Limits{InputTokens: 9})},
		{"budget-held", "the session's total token limit", session(events.Limits{TotalTokens: 10})},
		{"budget-held", "after the cost limit was reached", tools().after(events.KindRoundFinished, 1, reached)},
		{"budget-held", "in a turn that the cost limit ended", tools().before(events.KindTurnFinished, 1, reached, reached)},
		{"budget-held", "finishes as completed after", tools().before(events.KindTurnFinished, 1, reached)},
		{"budget-held", "is recorded as reached by 1", tools().before(events.KindTurnFinished, 1, events.LimitReached{Kind: events.LimitCost, Limit: 1, Used: 1})},
	}
}

func brokenInputs() []broken {
	items := []content.Item{content.UserText("hi")}
	started := events.MutationStarted{Turn: "turn-1", Mutator: "m", Point: "before_model"}
	done := events.MutationFinished{Turn: "turn-1", Mutator: "m", Point: "before_model"}
	sneaky, failing := done, done
	sneaky.Replacement = items
	failing.Dirty, failing.Error, failing.Replacement = true, "x", items
	other, kept := done, done
	other.Dirty, other.Replacement, other.Before, other.After = true, items, "b", content.DigestForm+"a"
	kept.Before, kept.After = "b", "a"
	note := content.NewItem(content.Notification, content.TextPart("done"))
	noted := events.InputQueued{Items: []content.Item{note}, Origin: events.FromNotification}
	corrected := events.InputAccepted{Turn: "turn-1", Items: items, Origin: events.FromSchema}
	twice := events.InputAccepted{Turn: "turn-1", Items: []content.Item{note, note}, Origin: events.FromNotification}
	return []broken{
		{"digests-fit", "replaces the transcript by one of digest", tools().before(events.KindModelCallStarted, 1, started, other)},
		{"digests-fit", "replaces the transcript: false, but it reports the digests b before and a after", tools().before(events.KindModelCallStarted, 1, started, kept)},
		{"input-once", "2 notifications are accepted without a late result", tools().after(events.KindRoundFinished, 1, twice)},
		{"input-once", "input of the origin notification is queued", tools().after(events.KindRoundFinished, 1, noted)},
		{"input-once", "input of the origin parent is queued", tools().after(events.KindRoundFinished, 1, events.InputQueued{Items: items, Origin: events.FromParent})},
		{"input-once", "there is no answer that must have a format", tools().after(events.KindRoundFinished, 1, corrected)},
		{"input-once", "is not in the queue", tools().drop(events.KindInputQueued, 1)},
		{"input-once", "is not in the queue", tools().after(events.KindRoundFinished, 1, events.InputAccepted{Turn: "turn-1", Items: items, Origin: events.FromHost})},
		{"input-once", "1 notifications are accepted", tools().after(events.KindRoundFinished, 1, events.InputAccepted{
			Turn: "turn-1", Items: items, Origin: events.FromNotification,
		})},
		{"mutations-paired", "without having started", tools().after(events.KindRoundStarted, 1, done)},
		{"mutations-paired", "while m is running", tools().after(events.KindRoundStarted, 1, started, started)},
		{"mutations-paired", "dirty false", tools().after(events.KindRoundStarted, 1, started, sneaky)},
		{"mutations-paired", `error "x"`, tools().after(events.KindRoundStarted, 1, started, failing)},
	}
}

func brokenTasks() []broken {
	within := func(evs ...events.Event) book {
		return tools().before(events.KindTurnFinished, 1, append([]events.Event{events.TaskStarted{Task: "t"}}, evs...)...)
	}
	started, failed := events.VerifyStarted{Attempt: 1}, events.VerifyFinished{Attempt: 1, Status: "failed"}
	back := events.InputAccepted{Turn: "turn-1", Items: []content.Item{content.UserText("again")}, Origin: events.FromVerifier}
	return []broken{
		{"gate-held", "inside another", within(events.TaskStarted{Task: "u"})},
		{"gate-held", "starts, but no task is open", tools().before(events.KindTurnFinished, 1, started)},
		{"gate-held", "while one is running", within(started, events.VerifyStarted{Attempt: 2})},
		{"gate-held", "verification 2 starts, want verification 1", within(events.VerifyStarted{Attempt: 2})},
		{"gate-held", "for a task with 0 retries", within(started, failed, events.VerifyStarted{Attempt: 2})},
		{"rules-held", "a verifier starts, but the policy", within(policyOf(events.RuleAsk), events.TaskStarted{Task: "v", Spec: events.TaskSpec{Verifier: []string{"go"}}}, started)},
		{"gate-held", "passed, with success false", within(started, events.VerifyFinished{Attempt: 1, Status: "passed"})},
		{"gate-held", "but the last one to start was 1", within(started, events.VerifyFinished{Attempt: 3, Status: "failed"})},
		{"gate-held", "but is not running", within(failed)},
		{"gate-held", "sent back twice after verification 1", within(started, failed, back, back)},
		{"gate-held", "gets a second verdict", within(started, failed, failed)},
		{"gate-held", "no verification failed", within(back)},
		{"gate-held", "recalled twice", within(events.MemoryRecalled{}, events.MemoryRecalled{})},
		{"gate-held", "stored, but no task is open", tools().before(events.KindTurnFinished, 1, events.MemoryStored{})},
		{"gate-held", "recorded as verified", within(events.TaskFinished{Status: "done", Verified: true})},
		{"gate-held", "while its verification is running", within(started, events.TaskFinished{Status: "failed"})},
		{"gate-held", "that did not start", tools().before(events.KindTurnFinished, 1, events.TaskFinished{Status: "done"})},
		{"gate-held", "while its task is open", within()},
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
		{"ends-have-causes", "finishes as cancelled", ends(content.Cancelled)},
		{"ends-have-causes", "finishes as limit", ends(content.Limit)},
		{"ends-have-causes", "finishes as terminated", ends(content.Terminated)},
		{"ends-have-causes", "finishes as blocked", ends(content.Blocked)},
		{"ends-have-causes", `a reply that ended as "max_tokens"`, change(tools(), 2, func(e *events.ReplyRecorded) { e.FinishReason = content.MaxTokens })},
		{"ends-have-causes", "answered as skipped", answered(content.StatusSkipped)},
		{"ends-have-causes", "answered as expired", answered(content.StatusExpired)},
		{"ends-have-causes", "answered as limit", answered(content.StatusLimit)},
		{"ends-have-causes", "answered as terminated", answered(content.StatusTerminated)},
		{"ends-have-causes", "answered as cancelled", answered(content.StatusCancelled)},
		{"ends-have-causes", "no cancel is recorded", change(tools(), 2, func(e *events.ReplyRecorded) { e.Interrupted = true })},
		{"one-reply-per-round", "finishes as completed while attempt 1 is open", unanswered},
		{"hooks-once", "run twice in round 1", tools().after(events.KindRoundStarted, 1, hook, hook)},
		{"usage-adds-up", "a mutator is billed", tools().after(events.KindUsageUpdated, 2, events.UsageUpdated{
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
		{"paired-calls", "call x has no result", preloaded(call)},
		{"paired-calls", "has no call before it", preloaded(result)},
		{"paired-calls", "has two results", preloaded(call, result, result)},
		{"paired-calls", "occurs twice", preloaded(call, result, call)},
		{"runnable-tail", "ends in an item of kind context", contextOnly},
		{"runnable-tail", "ends in an item of kind assistant", answered},
		{"runnable-tail", "an empty transcript", emptied},
		{"transcript-is-a-fold", "of 7 items, but the facts add up to 1", change(tools(), 1, func(e *events.ModelCallStarted) { e.TranscriptLen = 7 })},
		{"transcript-is-a-fold", "of 3 items, but the facts add up to 4", change(tools(), 1, func(e *events.RoundFinished) { e.TranscriptLen = 3 })},
	}
}
