package audit

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// question is what an approval answers.
type question struct {
	tool string
	key  content.GateKey
}

// grant is an approval that was given for always.
type grant struct {
	question
	by string
}

// grantHeld: a question is left out only if the same one about the same tool was
// approved for always before, and a call starts with no approval that nobody gave.
func grantHeld() rule {
	asked := map[content.ApprovalID]question{} // and not settled
	granted := map[content.ApprovalID]grant{}
	approved := map[content.CallID][]content.GateKey{}
	return func(f fact) {
		switch ev := f.event.(type) {
		case events.ApprovalRequired:
			a := ev.Approval
			asked[a.ID] = question{a.Tool, content.GateKey{Kind: a.RequestKind, Scope: a.Scope}}
		case events.ApprovalResolved:
			q := asked[ev.Approval]
			delete(asked, ev.Approval)
			if len(ev.Input) > 0 {
				q.key.Scope = ev.Scope
			}
			if ev.Outcome == events.Approved {
				approved[ev.Call] = append(approved[ev.Call], q.key)
			}
			if ev.Grant != "" {
				usedGrant(f, ev, q, granted)
			}
			if ev.Always {
				givenGrant(f, ev)
				granted[ev.Approval] = grant{q, ev.By}
			}
		case events.ToolDispatched:
			tool := ""
			if c, known := f.ledger.calls[ev.Call]; known {
				tool = c.Name
			}
			for _, k := range ev.Approved {
				if !slices.Contains(approved[ev.Call], k) && !isGranted(granted, question{tool, k}) {
					f.fail("call %s starts as if %s %s was approved, which it was not", ev.Call, k.Kind, k.Scope)
				}
			}
		}
	}
}

func isGranted(granted map[content.ApprovalID]grant, q question) bool {
	for _, a := range granted {
		if a.question == q {
			return true
		}
	}
	return false
}

// givenGrant: what is approved for always is what was asked, by a person.
func givenGrant(f fact, ev events.ApprovalResolved) {
	switch {
	case ev.Outcome != events.Approved:
		f.fail("approval %s was %s for always", ev.Approval, ev.Outcome)
	case len(ev.Input) > 0:
		f.fail("approval %s was given for always with other arguments", ev.Approval)
	case ev.Grant != "":
		f.fail("approval %s was given for always, but nobody was asked", ev.Approval)
	}
}

func usedGrant(f fact, ev events.ApprovalResolved, q question, granted map[content.ApprovalID]grant) {
	g, known := granted[ev.Grant]
	switch {
	case !known:
		f.fail("approval %s was settled by %s, which was not given for always", ev.Approval, ev.Grant)
	case ev.Outcome != events.Approved:
		f.fail("approval %s was %s by %s, which was given", ev.Approval, ev.Outcome, ev.Grant)
	case g.question != q:
		f.fail("approval %s is about %s %s of %s, but %s was given for always about %s %s of %s",
			ev.Approval, q.key.Kind, q.key.Scope, q.tool, ev.Grant, g.key.Kind, g.key.Scope, g.tool)
	case g.by != ev.By:
		f.fail("approval %s is said to be %s's, but %s was %s's", ev.Approval, ev.By, ev.Grant, g.by)
	}
}
