package again_test

import (
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/again"
)

// TestAnEntryFitsTheCommandThatCausedIt includes entries in which other events come before those of a command.
func TestAnEntryFitsTheCommandThatCausedIt(t *testing.T) {
	t.Parallel()
	settled := events.ApprovalResolved{Approval: "c-g1", Call: "c", Outcome: events.ApprovalCancelled}
	granted := events.ApprovalResolved{Approval: "d-g1", Call: "d", Outcome: events.Approved, By: "ada", Grant: "c-g1"}
	approved := events.ApprovalResolved{Approval: "c-g1", Call: "c", Outcome: events.Approved, By: "ann"}
	approve := commands.ResolveApproval{Approval: "c-g1", Approve: true}
	for name, tt := range map[string]struct {
		events []events.Event
		of     commands.Command
		want   bool
	}{
		"a close that settled a question":    {[]events.Event{settled, events.SessionClosed{By: "ann"}}, commands.Close{}, true},
		"a close of another person":          {[]events.Event{settled, events.SessionClosed{By: "ada"}}, commands.Close{}, false},
		"a decision":                         {[]events.Event{approved, granted}, approve, true},
		"a decision after that of a grant":   {[]events.Event{granted, approved}, approve, true},
		"a decision by the ID of the call":   {[]events.Event{approved}, commands.ResolveApproval{Approval: "c", Approve: true}, true},
		"a denial with the key of an answer": {[]events.Event{approved}, commands.ResolveApproval{Approval: "c-g1"}, false},
		"a close with the key of an answer":  {[]events.Event{approved}, commands.Close{}, false},
	} {
		if got := again.Fits(events.Entry{Events: tt.events}, tt.of, "ann"); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
