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
	State    string         `json:"state"` // waiting, approval, running or background
	Route    string         `json:"route"`
	Turn     content.TurnID `json:"turn"`
	Round    int            `json:"round"`
	Attempts int            `json:"attempts"`
	Deadline *content.Time  `json:"deadline" nullable:"true"` // null: none
}

// OpenCalls returns the open calls of a session, those in the background last.
func OpenCalls(s *loop.State) []OpenCall {
	all := []OpenCall{}
	calls := s.Background
	if s.Turn != nil {
		calls = slices.Concat(s.Turn.Calls, calls)
	}
	for _, c := range calls {
		o := OpenCall{
			Call: c.ID, Tool: c.Name, State: standing(s, c), Route: RouteName(c.Routing.Route), Turn: c.Turn, Round: c.Round, Attempts: c.Attempt,
		}
		if o.State == stateOver {
			continue
		}
		if o.State == "background" && c.Routing.Route == content.Foreground { // it was detached
			o.Route = o.State
		}
		if c.Deadline != 0 {
			o.Deadline = &c.Deadline
		}
		all = append(all, o)
	}
	return all
}

// stateOver is the state of a call that has an outcome.
const stateOver = "over"

// standing returns the state of a call: that of an open one, or over.
func standing(s *loop.State, c loop.Call) string {
	switch {
	case c.Status != "" && !c.Retried():
		return stateOver
	case slices.ContainsFunc(s.PendingApprovals(), func(a events.Approval) bool { return a.CallID == c.ID }):
		return "approval"
	case c.InBackground():
		return "background"
	case c.Running():
		return "running"
	}
	return "waiting"
}
