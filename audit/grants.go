package audit

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// question is the question that an approval answers.
type question struct {
	tool  string
	key   content.QuestionKey
	asker events.Asker
	turn  content.TurnID
}

// same reports whether a lasting approval of q answers o. It answers a question of a turn's own rules
// only within that turn.
func (q question) same(o question) bool {
	return q.tool == o.tool && q.key == o.key && (o.asker != events.AskedByTurn || q.turn == o.turn)
}

func questionOf(a *approval) question {
	if a == nil {
		return question{}
	}
	return question{a.Tool, content.QuestionKey{Kind: a.RequestKind, Scope: a.Scope}, a.Asker, a.Turn}
}

// grant is a lasting approval.
type grant struct {
	question
	given events.ApprovalResolved
}

// grantHeld: an approval for always, or an allowance of tools, answers later questions.
func grantHeld() rule {
	granted := map[content.ApprovalID]grant{}
	allowed := map[content.ApprovalID]events.ToolsAllowed{}
	approved := map[content.CallID][]content.QuestionKey{}
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.ApprovalResolved:
			q := questionOf(f.ledger.approvals[ev.Approval])
			if len(ev.Input) > 0 {
				q.key.Scope = ev.Scope
			}
			a, isAllowance := allowed[ev.Grant]
			if ev.Outcome == events.Approved && !isAllowance {
				approved[ev.Call] = append(approved[ev.Call], q.key)
			}
			switch {
			case isAllowance:
				usedAllowance(f, ev, q, a)
			case ev.Grant != "":
				usedGrant(f, ev, q, granted)
			}
			if ev.Always {
				givenGrant(f, ev)
				granted[ev.Approval] = grant{q, ev}
			}
		case events.ToolsAllowed:
			if _, known := allowed[ev.Grant]; known || ev.Grant == "" || len(ev.Tools) == 0 {
				f.fail("%q allows %d tools, with a name that is in use: %t", ev.Grant, len(ev.Tools), known)
			}
			allowed[ev.Grant] = ev
		case events.ToolDispatched:
			name := f.ledger.of(ev.Call).Name
			for _, k := range ev.Approved {
				if !slices.Contains(approved[ev.Call], k) && !isGranted(granted, question{tool: name, key: k}) {
					f.fail("call %s starts with %s %s as approved, but it was not", ev.Call, k.Kind, k.Scope)
				}
			}
		}
	}
}

func isGranted(granted map[content.ApprovalID]grant, q question) bool {
	for _, a := range granted {
		if a.same(q) {
			return true
		}
	}
	return false
}

// givenGrant: an approval for always answers the question that a person was asked.
func givenGrant(f *fact, ev events.ApprovalResolved) {
	switch {
	case ev.Outcome != events.Approved:
		f.fail("approval %s was %s for always", ev.Approval, ev.Outcome)
	case len(ev.Input) > 0:
		f.fail("approval %s was given for always with other arguments", ev.Approval)
	case ev.Grant != "":
		f.fail("approval %s was given for always, but a person was not asked", ev.Approval)
	}
}

func usedGrant(f *fact, ev events.ApprovalResolved, q question, granted map[content.ApprovalID]grant) {
	g, known := granted[ev.Grant]
	switch {
	case !known:
		f.fail("approval %s was settled by %s, which is not an approval for always", ev.Approval, ev.Grant)
	case ev.Outcome != events.Approved:
		f.fail("approval %s was %s by %s, which is an approval", ev.Approval, ev.Outcome, ev.Grant)
	case !g.same(q):
		f.fail("approval %s is about %s %s of %s, but %s was given for always about %s %s of %s",
			ev.Approval, q.key.Kind, q.key.Scope, q.tool, ev.Grant, g.key.Kind, g.key.Scope, g.tool)
	case g.given.By != ev.By || g.given.User != ev.User:
		f.fail("approval %s is recorded as decided by %s, but %s was given by %s", ev.Approval, ev.Decider(), ev.Grant, g.given.Decider())
	}
}

// usedAllowance: an allowance answers only questions of the session's rules, about the tools
// that it names.
func usedAllowance(f *fact, ev events.ApprovalResolved, q question, a events.ToolsAllowed) {
	named := slices.ContainsFunc(a.Tools, func(p string) bool { return content.Matches(p, q.tool) })
	switch {
	case ev.Outcome != events.Approved:
		f.fail("approval %s was %s by %s, which allows tools", ev.Approval, ev.Outcome, ev.Grant)
	case q.asker != events.AskedByRules:
		f.fail("approval %s was settled by %s, but its question is not only the session's rules'", ev.Approval, ev.Grant)
	case !named:
		f.fail("approval %s is about %s, which %s does not allow", ev.Approval, q.tool, ev.Grant)
	case a.By != ev.By || a.User != ev.User:
		f.fail("approval %s is recorded as decided by %s, but %s was given by %s", ev.Approval, ev.Decider(), ev.Grant, content.Sender(a.User, a.By))
	}
}
