package conformance

import (
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// eventLines renders a journal, one line per event: its kind and the fields that distinguish it. A
// scenario names the beginning of a line.
func eventLines(records []journal.Record) []string {
	tools := make(map[content.CallID]string)
	kinds := make(map[content.ApprovalID]string)
	var out []string
	for _, rec := range records {
		for _, ev := range rec.Entry.Events {
			switch ev := ev.(type) { //nolint:gochecksumtype // the others have no words
			case events.ToolCallRequested:
				tools[ev.Call.ID] = ev.Call.Name
			case events.ApprovalRequired:
				kinds[ev.Approval.ID] = ev.Approval.RequestKind
			}
			out = append(out, strings.TrimSpace(string(events.KindOf(ev))+" "+words(ev, tools, kinds)))
		}
	}
	return out
}

// says reports whether a line begins with the words.
func says(line, begins string) bool { return strings.HasPrefix(line+" ", begins+" ") }

func words(ev events.Event, tools map[content.CallID]string, kinds map[content.ApprovalID]string) string {
	switch ev := ev.(type) { //nolint:gochecksumtype // the others have no words
	case events.InputAccepted:
		return string(ev.Origin)
	case events.TurnStarted:
		return string(ev.Trigger)
	case events.ModelCallStarted:
		if ev.Cache != nil {
			return ev.Cache.Mode
		}
	case events.ModelCallFailed:
		return string(ev.Class)
	case events.ReplyRecorded:
		return string(ev.FinishReason)
	case events.RunFailed:
		return ev.Code
	case events.TurnFinished:
		return string(ev.FinishReason)
	case events.HookDecided:
		return strings.TrimSpace(ev.Point + " " + ev.Action + " " + ev.Hook)
	case events.MutationStarted:
		return ev.Mutator + " " + ev.Point
	case events.MutationFinished:
		return ev.Mutator + " " + ev.Point + " " + outcomeOf(ev)
	case events.LimitReached:
		return ev.Scope + " " + ev.Text()
	case events.CancelRequested:
		return ev.Scope + " " + ev.Reason
	case events.VerifyFinished:
		return ev.Status
	case events.TaskFinished:
		return ev.Status
	case events.Warning:
		return ev.Code
	case events.PolicyApplied:
		return ev.Policy.Name
	case events.ToolCatalogChanged:
		return changes(ev)
	default:
		return toolWords(ev, tools, kinds)
	}
	return ""
}

func toolWords(ev events.Event, tools map[content.CallID]string, kinds map[content.ApprovalID]string) string {
	switch ev := ev.(type) { //nolint:gochecksumtype // the others have no words
	case events.ToolCallRequested:
		return ev.Call.Name
	case events.ApprovalRequired:
		return ev.Approval.Tool + " " + ev.Approval.RequestKind
	case events.ApprovalResolved:
		words := tools[ev.Call] + " " + kinds[ev.Approval] + " " + string(ev.Outcome)
		if ev.Grant != "" {
			words += " granted"
		}
		return words
	case events.ToolDispatched:
		return tools[ev.Call]
	case events.ToolDetached:
		return tools[ev.Call]
	case events.ToolAttemptLost:
		return tools[ev.Call]
	case events.ToolResultReceived:
		words := ev.Result.Name + " " + string(ev.Result.Status)
		if ev.Late {
			words += " late"
		}
		return words
	default:
		return ""
	}
}

func outcomeOf(ev events.MutationFinished) string {
	switch {
	case ev.Error != "":
		return "failed"
	case ev.Dirty:
		return "dirty"
	}
	return "clean"
}

func changes(ev events.ToolCatalogChanged) string {
	var out []string
	for _, t := range ev.Added {
		out = append(out, "+"+t.Name)
	}
	for _, name := range ev.Removed {
		out = append(out, "-"+name)
	}
	for _, t := range ev.Changed {
		out = append(out, "~"+t.Name)
	}
	return strings.Join(out, " ")
}
