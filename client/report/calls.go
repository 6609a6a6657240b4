package report

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// OpenCall is a call without an outcome.
type OpenCall struct {
	Call     content.CallID `json:"call"`
	Tool     string         `json:"tool"`
	State    string         `json:"state"` // waiting, approval, running, background or lost
	Route    string         `json:"route"`
	Turn     content.TurnID `json:"turn"`
	Round    int            `json:"round"`
	Attempts int            `json:"attempts"`
	Deadline *content.Time  `json:"deadline"` // null: none
}

// OpenCalls returns the open calls of a session, those in the background last.
func OpenCalls(s *loop.State) []OpenCall {
	all := []OpenCall{}
	calls := s.Background
	if s.Turn != nil {
		calls = slices.Concat(s.Turn.Calls, calls)
	}
	for _, c := range calls {
		if c.Status != "" && !c.Retried() {
			continue
		}
		o := OpenCall{
			Call: c.ID, Tool: c.Name, State: "waiting", Route: RouteName(c.Routing.Route), Turn: c.Turn, Round: c.Round, Attempts: c.Attempt,
		}
		switch {
		case slices.ContainsFunc(s.PendingApprovals(), func(a events.Approval) bool { return a.CallID == c.ID }):
			o.State = "approval"
		case c.InBackground():
			o.State = "background"
			if c.Routing.Route == content.Foreground { // it was detached
				o.Route = o.State
			}
		case c.Running():
			o.State = "running"
		}
		if c.Deadline != 0 {
			o.Deadline = &c.Deadline
		}
		all = append(all, o)
	}
	return all
}
