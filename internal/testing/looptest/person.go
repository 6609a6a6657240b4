package looptest

import (
	"encoding/json"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Person makes up commands of people: mostly ones that the session's state allows, sometimes not.
// For each choice, Throw returns a number below its argument.
type Person struct {
	Throw func(n int) int
}

// View is what a person sees of a session.
type View struct {
	Approvals []events.Approval
	Calls     []content.CallID
}

// unknownCall is the ID of no call.
const unknownCall = "no-such-call"

func one[T any](p Person, of ...T) T { return of[p.Throw(len(of))] }

func (p Person) once(n int) bool { return p.Throw(n) == n-1 }

// Ask returns any command of a person.
func (p Person) Ask(v View) commands.Command {
	call := content.CallID(unknownCall)
	if len(v.Calls) > 0 {
		call = one(p, v.Calls...)
	}
	if len(v.Approvals) > 0 && p.once(2) {
		return p.Decide(one(p, v.Approvals...))
	}
	switch p.Throw(13) {
	case 0, 1, 2:
		return p.Submit()
	case 3, 4:
		return commands.Cancel{Scope: one(p, commands.ScopeTurn, commands.ScopeTurn, commands.ScopeCall, commands.ScopeSession), Call: call, Reason: one(p, "", "because")}
	case 5, 6:
		return commands.DetachCall{Call: call}
	case 7:
		return commands.SetNextTurnCache{Cache: content.CacheRequest{Mode: one(p, "required", "best_effort", "disabled", "?")}}
	case 8:
		return p.Task()
	case 9:
		return commands.SettleDeadLetter{Call: call, Retry: !p.once(3), MayRepeat: !p.once(4)}
	case 10:
		return commands.AllowTools{Tools: []string{one(p, "a", "*", "")}}
	}
	return p.Decide(events.Approval{CallID: call})
}

// Submit returns input, which asks for any way to treat a running turn.
func (p Person) Submit() commands.SubmitInput {
	return commands.SubmitInput{
		Items:  []content.Item{content.UserText("in")},
		OnBusy: one(p, events.Steer, events.Queue, events.Interrupt, events.Reject),
	}
}

// Task returns the start of a task.
func (p Person) Task() commands.StartTask {
	return commands.StartTask{Spec: events.TaskSpec{Goal: one(p, "g", "g", "g", ""), VerifierFunc: !p.once(3), MaxRetries: p.Throw(3)}}
}

// Decide answers an approval, which it names by its ID, by its call, or not at all. Some
// answers have other arguments for the call, which may not fit its schema.
func (p Person) Decide(a events.Approval) commands.ResolveApproval {
	c := commands.ResolveApproval{Approve: p.once(2), Always: p.once(4)}
	switch p.Throw(3) {
	case 0:
		c.Approval = a.ID
	case 1:
		c.Call = a.CallID
	}
	if p.once(3) {
		c.Input = json.RawMessage(one(p, `{"n":2}`, `{"n":"y"}`))
	}
	if p.once(3) {
		c.Reason = "no"
	}
	return c
}
