package talk

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// tracked is a tracker and the journal that it is fed.
type tracked struct {
	tracker
	seq  uint64
	seen []events.Kind
}

// take feeds an entry with the cause.
func (t *tracked) take(cause string, evs ...events.Event) {
	t.seq++
	rec := journal.Record{Head: journal.Head{Seq: t.seq}, Entry: events.Entry{Seq: t.seq, Cause: cause, Events: evs}}
	t.tracker.take(rec, func(ev events.Event) { t.seen = append(t.seen, events.KindOf(ev)) })
}

func turnBegins(id content.TurnID) []events.Event {
	return []events.Event{
		events.InputAccepted{Turn: id, Origin: events.FromHost},
		events.TurnStarted{Turn: id},
		events.RoundStarted{Turn: id, Round: 1},
	}
}

func turnEnds(id content.TurnID, text string) []events.Event {
	return []events.Event{
		events.ReplyRecorded{Turn: id, Items: []content.Item{content.AssistantText(text)}},
		events.TurnFinished{Turn: id, FinishReason: content.Completed, Rounds: 1},
	}
}

func TestInputOfAnIdleSessionOpensItsTurn(t *testing.T) {
	t.Parallel()
	var tr tracked
	tr.follow("ask", events.Queue)
	tr.take("claim", events.DriverClaimed{})
	if tr.accepted() {
		t.Error("accepted by somebody else's entry")
	}
	tr.take("ask", append([]events.Event{events.RunStarted{}, events.InputQueued{}}, turnBegins("turn-1")...)...)
	if !tr.accepted() || !tr.opened || tr.end != nil {
		t.Errorf("accepted %v, opened %v, end %v", tr.accepted(), tr.opened, tr.end)
	}
	tr.take("reply", turnEnds("turn-1", "hello")...)
	if tr.end == nil || tr.end.Turn != "turn-1" || tr.end.text != "hello" || tr.end.head.Seq != 3 {
		t.Errorf("end = %+v", tr.end)
	}
	want := []events.Kind{events.KindTurnStarted, events.KindRoundStarted, events.KindReplyRecorded, events.KindTurnFinished}
	if diff := cmp.Diff(want, tr.seen); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

func TestQueuedInputWaitsForItsOwnTurn(t *testing.T) {
	t.Parallel()
	var tr tracked
	tr.take("other", append([]events.Event{events.RunStarted{}, events.InputQueued{}}, turnBegins("turn-1")...)...)
	tr.follow("ask", events.Queue)
	tr.take("ask", events.InputQueued{OnBusy: events.Queue})
	tr.take("steer", events.InputQueued{})
	tr.take("round", events.InputAccepted{Turn: "turn-1", Origin: events.FromHost}, events.RoundStarted{Turn: "turn-1", Round: 2})
	if tr.mine() {
		t.Error("took a turn that somebody else opened")
	}
	tr.take("reply", append(turnEnds("turn-1", "not yours"), turnBegins("turn-2")...)...)
	if !tr.mine() || tr.end != nil {
		t.Errorf("mine %v, end %+v", tr.mine(), tr.end)
	}
	tr.take("reply2", turnEnds("turn-2", "yours")...)
	if tr.end == nil || tr.end.Turn != "turn-2" || tr.end.text != "yours" {
		t.Errorf("end = %+v", tr.end)
	}
}

func TestSteeringInputJoinsTheOpenTurn(t *testing.T) {
	t.Parallel()
	var tr tracked
	tr.take("other", append([]events.Event{events.RunStarted{}, events.InputQueued{}}, turnBegins("turn-1")...)...)
	tr.take("call", events.ToolCallRequested{Call: content.ToolCall{ID: "c1", Name: "x"}}, events.ToolDispatched{Call: "c1", Attempt: 1})
	tr.follow("ask", events.Steer)
	tr.take("ask", events.InputQueued{})
	tr.take("note", events.InputAccepted{Turn: "turn-1", Origin: events.FromNotification})
	if tr.mine() {
		t.Error("joined with a notification")
	}
	tr.take("round",
		events.ToolResultReceived{Result: content.NewResult("c1", "x", content.StatusOK, ""), Duration: 3 * time.Millisecond},
		events.InputAccepted{Turn: "turn-1", Origin: events.FromHost}, events.RoundStarted{Turn: "turn-1", Round: 2})
	tr.take("reply", turnEnds("turn-1", "for both")...)
	if tr.end == nil || tr.end.text != "for both" {
		t.Fatalf("end = %+v", tr.end)
	}
	want := []callReport{{ID: "c1", Name: "x", Status: "ok", Route: "foreground", Attempts: 1, DurationMS: 3}}
	if diff := cmp.Diff(want, tr.end.calls, cmpopts.IgnoreUnexported(callReport{})); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestATurnIsHeldByAnApprovalOnlyOnceNothingRuns(t *testing.T) {
	t.Parallel()
	var tr tracked
	tr.follow("ask", events.Queue)
	tr.take("ask", append([]events.Event{events.RunStarted{}, events.InputQueued{}}, turnBegins("turn-1")...)...)
	tr.take("reply",
		events.ToolCallRequested{Call: content.ToolCall{ID: "c1", Name: "x"}},
		events.ToolCallRequested{Call: content.ToolCall{ID: "c2", Name: "y"}},
		events.ToolDispatched{Call: "c1", Attempt: 1}, events.ToolDispatched{Call: "c2", Attempt: 1})
	tr.take("lost", events.ToolAttemptLost{Call: "c1", Attempt: 1},
		events.ApprovalRequired{Approval: events.Approval{ID: "a", CallID: "c1", Tool: "x"}})
	if held := tr.held(); held != nil {
		t.Errorf("held by %+v while c2 runs", held)
	}
	tr.take("result", events.ToolResultReceived{Result: content.NewResult("c2", "y", content.StatusOK, "")})
	held := tr.held()
	if len(held) != 1 || held[0].CallID != "c1" {
		t.Fatalf("held by %+v, want c1", held)
	}
	o := tr.standing()
	err := o.verdict(func(content.CallID) string { return "decide" })
	if err == nil || !strings.HasSuffix(err.Error(), ": decide") || o.report("s").FinishReason != needsApproval {
		t.Errorf("verdict %v, report %+v", err, o.report("s"))
	}
	tr.take("resolve", events.ApprovalResolved{Approval: "a", Call: "c1"})
	if len(tr.held()) > 0 {
		t.Error("held by a decided approval")
	}
}

// Where a call runs, too, somebody may have to be asked: it does not run then.
func TestACallThatAsksWhereItRunsHoldsItsTurn(t *testing.T) {
	t.Parallel()
	var tr tracked
	tr.follow("ask", events.Queue)
	tr.take("ask", append([]events.Event{events.RunStarted{}, events.InputQueued{}}, turnBegins("turn-1")...)...)
	tr.take("reply", events.ToolCallRequested{Call: content.ToolCall{ID: "c1", Name: "x"}}, events.ToolDispatched{Call: "c1", Attempt: 1})
	tr.take("gate", events.ApprovalRequired{Approval: events.Approval{ID: "a", CallID: "c1", Tool: "x"}})
	if held := tr.held(); len(held) != 1 || held[0].ID != "a" {
		t.Errorf("held by %+v, want a", held)
	}
}

func TestALateOutcomeIsNotTheCallsResult(t *testing.T) {
	t.Parallel()
	var tr tracked
	tr.follow("ask", events.Queue)
	tr.take("ask", append([]events.Event{events.RunStarted{}, events.InputQueued{}}, turnBegins("turn-1")...)...)
	tr.take("call", events.ToolCallRequested{Call: content.ToolCall{ID: "c1", Name: "x"}},
		events.ToolDispatched{Call: "c1", Attempt: 1}, events.ToolDetached{Call: "c1"})
	tr.take("late", events.ToolResultReceived{Result: content.NewResult("c1", "x", content.StatusOK, ""), Late: true})
	tr.take("reply", turnEnds("turn-1", "bye")...)
	if got := tr.end.calls[0].Status; got != "unknown" {
		t.Errorf("status = %q", got)
	}
}
