package audit

import (
	"slices"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// TestAMissingFactIsDetected edits journals like a faulty writer that chains the entries correctly.
// An invariant must be violated.
func TestAMissingFactIsDetected(t *testing.T) {
	t.Parallel()
	// Some events of other kinds may be missing without breaking an invariant, such as the
	// end of an unfinished turn.
	sabotage(t, []events.Kind{
		events.KindDriverClaimed, events.KindRunStarted, events.KindInputQueued, events.KindInputAccepted,
		events.KindTurnStarted, events.KindRoundStarted, events.KindModelCallFailed, events.KindToolCallRequested,
		events.KindApprovalRequired, events.KindApprovalResolved, events.KindToolDetached, events.KindToolResultReceived,
		events.KindMutationStarted, events.KindLimitReached, events.KindTaskStarted, events.KindVerifyStarted,
		events.KindVerifyFinished, events.KindTaskFinished, events.KindRunFailed,
	}, func(evs []events.Event, i int) []events.Event {
		return append(slices.Delete(evs, i, i+1), events.Warning{Code: "left_out"})
	})
}

func TestARepeatedFactIsDetected(t *testing.T) {
	t.Parallel()
	harmless := []events.Kind{
		events.KindInputQueued, events.KindCancelRequested, events.KindParked, events.KindWarning, events.KindConfigChanged,
	}
	kinds := slices.DeleteFunc(events.Kinds(), func(k events.Kind) bool { return slices.Contains(harmless, k) })
	sabotage(t, kinds, func(evs []events.Event, i int) []events.Event { return slices.Insert(evs, i, evs[i]) })
}

// sabotage edits each event of the kinds in every story, one at a time.
func sabotage(t *testing.T, kinds []events.Kind, edit func(evs []events.Event, i int) []events.Event) {
	t.Helper()
	for name, story := range stories() {
		records := story(t).records
		for r := range records {
			for i, ev := range records[r].Entry.Events {
				if !slices.Contains(kinds, events.KindOf(ev)) || quiet(ev) {
					continue
				}
				entries := make([]events.Entry, len(records))
				for n := range records {
					entries[n] = records[n].Entry
				}
				entries[r].Events = edit(slices.Clone(entries[r].Events), i)
				if len(check(linked(t, entries))) == 0 {
					t.Errorf("%s: no violation for %s in entry %d", name, events.KindOf(ev), r+1)
				}
			}
		}
	}
}

// quiet reports whether the event has no consequences: a canceled background call has no further
// outcome.
func quiet(ev events.Event) bool {
	r, ok := ev.(events.ToolResultReceived)
	return ok && r.Late && r.Result.Status == content.StatusCancelled
}
