package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/events"
)

// sawEvent counts events, to show which paths were taken.
func (w *world) sawEvent(ev events.Event) {
	w.saw("event: " + string(events.KindOf(ev)))
	switch ev := ev.(type) { //nolint:gochecksumtype // the rest has no branches
	case events.ToolResultReceived:
		w.saw(fmt.Sprintf("result: %s, late %v", ev.Result.Status, ev.Late))
	case events.TurnFinished:
		w.saw("turn: " + string(ev.FinishReason))
	case events.InputQueued:
		w.saw(fmt.Sprintf("queued by %s, busy: %s", ev.Origin, ev.OnBusy))
	case events.VerifyFinished:
		w.saw("verified: " + ev.Status)
	case events.TurnStarted:
		w.saw("trigger: " + string(ev.Trigger))
	case events.ReplyRecorded:
		w.saw("reply: " + string(ev.FinishReason))
	case events.ModelCallFailed:
		w.saw("model failed: " + string(ev.Class))
	case events.ApprovalResolved:
		w.saw("approval: " + string(ev.Outcome))
		if ev.Grant != "" {
			w.saw("approval: granted before")
		}
	case events.LimitReached:
		w.saw(fmt.Sprintf("limit: %s of the %s", ev.Kind, ev.Scope))
	case events.HookDecided:
		w.saw("hook: " + ev.Action + " at " + ev.Point)
	case events.MutationFinished:
		w.saw(fmt.Sprintf("mutation: dirty %v, failed %v at %s", ev.Dirty, ev.Error != "", ev.Point))
	case events.CancelRequested:
		w.saw("cancel: " + ev.Scope)
	case events.Warning:
		w.saw("warning: " + ev.Code)
	case events.ToolDispatched:
		if ev.Attempt > 1 {
			w.saw("dispatched again")
		}
		if ev.Input != nil {
			w.saw("dispatched with patched input")
		}
	}
}

// table renders a tally, by name.
func (t tally) table() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&b, "%7d  %s\n", t[k], k)
	}
	return b.String()
}
