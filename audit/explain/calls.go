package explain

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// noteCall folds what happens to calls.
func (f *fold) noteCall(ev any) {
	switch ev := ev.(type) {
	case events.ToolCallRequested:
		if f.keep(ev.Call) {
			f.add(ev.Call, ev.Turn, ev.Round, ev.Routing.DeclaredEffects())
		}
	case events.ApprovalRequired:
		f.ask(ev.Approval)
	case events.ApprovalResolved:
		f.decide(ev)
	case events.HookDecided:
		if c := f.byID[ev.Call]; c != nil {
			c.Hooks = append(c.Hooks, Hook{f.at, ev.Point, ev.Hook, ev.Action, ev.Reason, ev.FailedOpen, ev.Notes})
		}
	case events.ToolDispatched:
		f.start(ev)
	case events.ToolAttemptLost:
		f.lose(ev)
	case events.DeadLetterSettled:
		f.order(ev.Call, "", string(ev.Outcome), f.owners.person(ev.User, ev.By, f.sender), ev.Reason)
	case events.ToolDetached:
		if ev.By+ev.User != "" { // otherwise its route or its time limit detached it
			f.order(ev.Call, "", "detached", f.owners.person(ev.User, ev.By, f.sender), "")
		}
	case events.CancelRequested:
		f.cancel(ev)
	case events.ToolResultReceived:
		f.answer(ev)
	case events.VerifyStarted:
		if f.verifier = f.verify(content.VerifierPlace(f.turn.Number(), ev.Attempt)); f.verifier != nil {
			f.attempt(f.verifier, Attempt{N: 1})
		}
	case events.VerifyFinished:
		f.verified(ev)
	}
}

func (f *fold) ask(a events.Approval) {
	c := f.byID[a.CallID]
	if a.RequestKind == loop.KindVerifier {
		c = f.verify(content.Place(a.CallID))
		f.verifier = c
	}
	if c != nil {
		c.Questions = append(c.Questions, Question{
			At: f.at, ID: a.ID, Kind: a.RequestKind, Scope: a.Scope, Reason: a.Reason, Summary: a.Summary, Asker: a.Asker,
		})
	}
}

func (f *fold) decide(ev events.ApprovalResolved) {
	c := f.byID[ev.Call]
	if c == nil {
		return
	}
	if len(ev.Input) > 0 {
		c.Ran = ev.Input
	}
	i := slices.IndexFunc(c.Questions, func(q Question) bool { return q.ID == ev.Approval })
	if i < 0 {
		return
	}
	sender := f.sender
	if ev.Grant != "" { // the entry is not the decision's own
		sender = ""
	}
	c.Questions[i].Decision = &Decision{
		At: f.at, Outcome: ev.Outcome, Decider: f.owners.person(ev.User, ev.By, sender), Reason: ev.Reason, Always: ev.Always,
		Input: ev.Input, Grant: ev.Grant, Allowed: f.allowed[ev.Grant],
	}
}

func (f *fold) start(ev events.ToolDispatched) {
	c := f.byID[ev.Call]
	if c == nil {
		return
	}
	if len(ev.Input) > 0 {
		c.Ran = ev.Input
	}
	f.attempt(c, Attempt{N: ev.Attempt, Route: ev.Route, Queue: ev.Queue, Digest: ev.Digest, Because: ev.Because})
}

func (f *fold) attempt(c *Call, a Attempt) {
	a.At, a.Writer = f.at, f.writer
	a.Unrestricted = len(a.Because) == 0 && f.policy == nil && !f.ruled && !f.narrowed && len(c.Questions)+len(c.Hooks) == 0
	c.Attempts, c.Policy = append(c.Attempts, a), f.policy
}

func (f *fold) lose(ev events.ToolAttemptLost) {
	c := f.byID[ev.Call]
	if c == nil {
		return
	}
	for i := range slices.Backward(c.Attempts) {
		if a := &c.Attempts[i]; a.N == ev.Attempt {
			a.Lost = &Loss{f.at, ev.Reason}
			return
		}
	}
}

func (f *fold) order(id content.CallID, scope, action string, from Person, reason string) {
	if c := f.byID[id]; c != nil {
		c.Orders = append(c.Orders, Order{f.at, action, scope, from, reason})
	}
}

// cancel adds a cancel to each call that it affects.
func (f *fold) cancel(ev events.CancelRequested) {
	from := f.owners.person(ev.User, ev.By, f.sender)
	if ev.Scope == commands.ScopeCall {
		f.order(ev.Target, "", "cancelled", from, ev.Reason)
		return
	}
	for _, c := range f.calls {
		if c.Turn == f.turn && f.open && c.Status == "" {
			f.order(c.ID, ev.Scope, "cancelled", from, ev.Reason)
		}
	}
}

func (f *fold) answer(ev events.ToolResultReceived) {
	r := ev.Result
	c := f.byID[r.CallID]
	if c == nil {
		return
	}
	cut, _ := r.Metadata.Get(content.MetaTruncated)
	text := r.Text()
	others := 0
	for _, p := range r.Output {
		if p.Kind != content.TextKind && p.Kind != content.StructuredKind {
			others++
		}
	}
	if c.Status == "" {
		c.Status = r.Status
	}
	worker := keyOf(ev.Signature)
	runner := f.owners.of(worker)
	for i := range c.Attempts {
		if a := &c.Attempts[i]; a.N == ev.Attempt {
			a.Worker, a.Runner = worker, runner
		}
	}
	c.Results = append(c.Results, Result{
		At: f.at, Status: r.Status, Code: r.Code, Text: text, Bytes: len(text), Others: others, Attempt: ev.Attempt,
		Took: int64(ev.Duration), Late: ev.Late, Cut: string(cut) == "true", Changed: ev.ChangedPaths, Responder: f.writer, Worker: worker, Runner: runner,
	})
}

// verified records the verdict of a verifier, or that it may not run.
func (f *fold) verified(ev events.VerifyFinished) {
	c := f.verifier
	if c == nil || ev.Status == "skipped" {
		return
	}
	f.verifier = nil
	status := content.StatusOK
	switch {
	case ev.Status == "denied":
		status = content.StatusDenied
	case ev.Status == "cancelled":
		status = content.StatusCancelled
	case !ev.Success:
		status = content.StatusError
	}
	c.Status = status
	c.Results = append(c.Results, Result{
		At: f.at, Status: status, Text: ev.Output, Bytes: len(ev.Output), Attempt: len(c.Attempts), Took: int64(ev.Duration), Responder: f.writer,
	})
}
