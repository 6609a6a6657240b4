package audit

import (
	"context"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// rulesHeld: the session's rules may change while a call waits. Those in force when the call was
// checked count, so one version that allows it is enough. The policy in force when a call starts
// counts.
func rulesHeld() rule {
	var r ruled
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.RunStarted:
			r.session = ev.Config.Rules
		case events.ConfigChanged:
			r.session = ev.Config.Rules
			for _, c := range r.calls {
				c.session = append(c.session, ev.Config.Rules)
			}
		case events.PolicyApplied:
			r.policy = ev.Policy
		case events.TurnStarted:
			r.turn = nil
			r.options(ev.Options)
		case events.InputAccepted:
			r.options(ev.Options)
		case events.ToolCallRequested:
			r.request(ev)
		case events.ApprovalResolved:
			if c, a := r.calls[ev.Call], f.ledger.approvals[ev.Approval]; c != nil && a != nil && ev.Outcome == events.Approved &&
				a.RequestKind == permission.KindCall && a.CallID == ev.Call {
				c.approved = append(c.approved, a.Asker)
			}
		case events.ToolDispatched:
			r.judgeGrounds(f, ev)
			if c, ok := r.calls[ev.Call]; ok {
				delete(r.calls, ev.Call)
				c.judge(f)
				c.judgeByPolicy(f, r.policy)
			}
		case events.ToolResultReceived:
			delete(r.calls, ev.Result.CallID)
		case events.TaskStarted:
			r.verifier = ev.Spec.Verifier
		case events.VerifyStarted:
			r.judgeVerifier(f)
		}
	}
}

// ruled tracks the rules and the calls that have not started.
type ruled struct {
	policy   events.Policy
	verifier []string // of the open task
	session  []events.Rule
	turn     [][]events.Rule
	calls    map[content.CallID]*ruledCall
}

type ruledCall struct {
	routing  content.Routing
	request  tool.Request
	session  [][]events.Rule // in force since it was requested
	turn     [][]events.Rule
	approved []events.Asker // of the questions about the call itself
}

func (r *ruled) options(o *events.TurnOptions) {
	if o != nil {
		r.turn = o.Rules
	}
}

func (r *ruled) request(ev events.ToolCallRequested) {
	if r.calls == nil {
		r.calls = map[content.CallID]*ruledCall{}
	}
	r.calls[ev.Call.ID] = &ruledCall{
		request: tool.Request{Call: ev.Call, Spec: tool.Spec{Name: ev.Call.Name, Effects: ev.Routing.Effects}},
		session: [][]events.Rule{r.session}, turn: r.turn, routing: ev.Routing,
	}
}

// judge reports the rules that forbid the start of the call.
func (c *ruledCall) judge(f *fact) {
	name := c.request.Call.Name
	allowed := false
	for _, rules := range c.session {
		switch c.ruling(permission.Rules(rules)) {
		case tool.Deny:
		case tool.Ask:
			allowed = allowed || len(c.approved) > 0
		case tool.Allow, tool.NoOpinion:
			allowed = true
		}
	}
	if !allowed {
		f.fail("call %s of %s starts, but the session's rules do not allow it and it was not approved", c.request.Call.ID, name)
	}
	for _, rules := range c.turn {
		switch c.ruling(permission.Narrowing(rules)) {
		case tool.Deny:
			f.fail("call %s of %s starts, but its turn's rules deny it", c.request.Call.ID, name)
		case tool.Ask:
			if !c.approvedForTurn() {
				f.fail("call %s of %s starts, but its turn's rules still need an approval", c.request.Call.ID, name)
			}
		case tool.Allow, tool.NoOpinion:
		}
	}
}

// judgeByPolicy reports a start that the policy forbids.
func (c *ruledCall) judgeByPolicy(f *fact, p events.Policy) {
	name := c.request.Call.Name
	switch action, _ := p.Ruling(name, c.routing.Queue, c.routing.DeclaredEffects()); {
	case action == events.RuleDeny:
		f.fail("call %s of %s starts, but the policy denies it", c.request.Call.ID, name)
	case action == events.RuleAsk && len(c.approved) == 0:
		f.fail("call %s of %s starts, but the policy does not allow it and it was not approved", c.request.Call.ID, name)
	}
}

// judgeGrounds reports false grounds of a start.
func (r *ruled) judgeGrounds(f *fact, ev events.ToolDispatched) {
	for _, g := range ev.Because {
		switch g.By {
		case events.ByPolicy:
			named := events.Rule{Tool: g.Name, Action: g.Action, Queue: g.Queue}
			last := events.Rule{Tool: "*", Action: events.RuleGuard} // of every list
			if named != last && !slices.ContainsFunc(r.policy.Rules, func(l []events.Rule) bool { return slices.Contains(l, named) }) {
				f.fail("call %s starts by the rule %s of the policy, which has no such rule", ev.Call, g.Name)
			}
		case events.ByApproval:
			if a := f.ledger.approvals[content.ApprovalID(g.Name)]; a == nil || a.CallID != ev.Call || a.outcome != events.Approved {
				f.fail("call %s starts by approval %s, which did not approve it", ev.Call, g.Name)
			}
		case events.ByRule, events.ByFlag, events.ByHook, events.ByEffects, events.ByRetry:
		}
	}
}

// judgeVerifier reports a verifier that the policy forbids.
func (r *ruled) judgeVerifier(f *fact) {
	action, _ := r.policy.Ruling(loop.VerifierTool, "", content.Once)
	approved := slices.ContainsFunc(f.ledger.asked, func(a *approval) bool {
		return a.RequestKind == loop.KindVerifier && a.outcome == events.Approved
	})
	if len(r.verifier) > 0 && (action == events.RuleDeny || action == events.RuleAsk && !approved) {
		f.fail("a verifier starts, but the policy does not allow it and it was not approved")
	}
}

func (c *ruledCall) approvedForTurn() bool {
	return slices.Contains(c.approved, events.AskedByTurn)
}

func (c *ruledCall) ruling(p tool.Permissions) tool.Ruling {
	v, err := p.Evaluate(context.Background(), c.request)
	if err != nil {
		return tool.Deny
	}
	return v.Ruling
}
