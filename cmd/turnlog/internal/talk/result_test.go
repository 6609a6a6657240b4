package talk

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// reported returns the calls of a report with these events.
func reported(evs ...events.Event) []callReport {
	var r turnReport
	for _, ev := range evs {
		r.add(ev)
	}
	return r.ToolCalls
}

func TestAReportHasTheOutcomeOfACall(t *testing.T) {
	t.Parallel()
	requested := events.ToolCallRequested{Call: content.ToolCall{ID: "c", Name: "x"}}
	dispatched := events.ToolDispatched{Call: "c", Attempt: 2}
	result := events.ToolResultReceived{Result: content.NewResult("c", "x", content.StatusOK, ""), Duration: 3 * time.Millisecond}
	late := result
	late.Late = true
	for name, tc := range map[string]struct {
		evs  []events.Event
		want callReport
	}{
		"requested":  {nil, callReport{Status: "waiting", Route: "foreground"}},
		"dispatched": {[]events.Event{dispatched}, callReport{Status: "running", Route: "foreground", Attempts: 2}},
		"in question": {
			[]events.Event{events.ApprovalRequired{Approval: events.Approval{CallID: "c"}}}, callReport{Status: "needs_approval", Route: "foreground"},
		},
		"approved": {
			[]events.Event{events.ApprovalRequired{Approval: events.Approval{CallID: "c"}}, events.ApprovalResolved{Call: "c"}},
			callReport{Status: "waiting", Route: "foreground"},
		},
		"ended": {[]events.Event{dispatched, result}, callReport{Status: "ok", Route: "foreground", Attempts: 2, DurationMS: 3}},
		"detached, and its result came after the turn's placeholder": {
			[]events.Event{dispatched, events.ToolDetached{Call: "c"}, late}, callReport{Status: "running", Route: "background", Attempts: 2},
		},
		"of another turn": {[]events.Event{events.ToolDispatched{Call: "other"}}, callReport{Status: "waiting", Route: "foreground"}},
	} {
		tc.want.ID, tc.want.Name = "c", "x"
		got := reported(append([]events.Event{requested}, tc.evs...)...)
		if diff := cmp.Diff([]callReport{tc.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestARejectedAnswerIsNotReported(t *testing.T) {
	t.Parallel()
	var r turnReport
	answer := events.ReplyRecorded{Items: []content.Item{content.AssistantText("yes")}}
	if r.add(answer); r.Text != "yes" {
		t.Errorf("text = %q", r.Text)
	}
	answer.Invalid = "it is not JSON"
	if r.add(answer); r.Text != "" {
		t.Errorf("text = %q", r.Text)
	}
}
