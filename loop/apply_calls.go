package loop

import (
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func (s *State) applyToolCallRequested(ev events.ToolCallRequested) {
	s.Turn.Calls = append(s.Turn.Calls, Call{
		ToolCall: ev.Call, Turn: ev.Turn, Round: ev.Round, Routing: ev.Routing, Digest: ev.Routing.Digest,
		Rules: s.turnOptions().Rules,
	})
	s.Turn.ByID.Add(len(s.Turn.Calls)-1, s.Turn.callID)
	s.CallIDs.Add(ev.Call.ID)
	s.Turn.Used.ToolCalls++
	s.Used.ToolCalls++
}

func (s *State) applyApprovalRequired(ev events.ApprovalRequired) {
	a := Approval{Approval: ev.Approval, Asked: s.At}
	c, ok := s.Call(a.CallID)
	if ok {
		c.Questions++
		if c.Dispatched {
			c.Suspended++ // a late question: the attempt waits
		}
		if c.Attempt > 0 {
			c.Asked = append(slices.Clip(c.Asked), a.key())
		}
		c.Dispatched = false
	}
	if ok && c.asksOutsideTurn() {
		s.BackgroundApprovals = append(s.BackgroundApprovals, a)
		return
	}
	t := s.Turn
	t.Approvals = append(t.Approvals, a)
	t.Undecided.Add(len(t.Approvals)-1, t.approvalID)
	t.Checked, t.Held = true, false
	s.rest()
}

func (s *State) applyApprovalResolved(ev events.ApprovalResolved) {
	if s.asksOutsideTurn(ev.Call) {
		s.resolve(s.BackgroundApprovals, ev)
		return
	}
	t := s.Turn
	s.resolve(s.concerned(ev), ev)
	t.Undecided.Remove(string(ev.Approval), t.approvalID)
	if len(t.Undecided) == 0 {
		t.Held = true
		if !s.Stepped {
			s.resume()
		}
	}
}

// concerned returns the list of questions that a decision may be about.
func (s *State) concerned(ev events.ApprovalResolved) []Approval {
	all := s.Turn.Approvals
	i := s.Turn.Undecided.Find(string(ev.Approval), s.Turn.approvalID)
	if c, ok := s.Call(ev.Call); i < 0 || len(ev.Input) > 0 && (!ok || c.Questions > 1) {
		return all
	}
	return all[i : i+1]
}

// resolve applies a decision to the questions it may be about. A decision with new arguments patches the call and
// makes its pending questions about the new arguments.
func (s *State) resolve(all []Approval, ev events.ApprovalResolved) {
	patched := len(ev.Input) > 0
	for i := range all {
		switch a := &all[i]; {
		case a.ID == ev.Approval:
			a.Outcome, a.By, a.User = ev.Outcome, ev.By, ev.User
			a.Allowed = slices.ContainsFunc(s.Allowed, func(w Allowance) bool { return w.Grant == ev.Grant })
			if patched {
				a.Scope = ev.Scope
			}
			if ev.Outcome == events.Approved {
				s.approved(*a, ev.Always)
			}
		case patched && a.CallID == ev.Call && a.Outcome == "":
			a.Input, a.Digest = ev.Input, ev.Digest
		}
	}
	if c, ok := s.Call(ev.Call); ok && patched {
		c.Input, c.Digest = ev.Input, ev.Digest
	}
}

// approved records that a question is answered, for its call and, if the approval is lasting, for the session.
// The call's runner does not accept an allowance as an answer.
func (s *State) approved(a Approval, always bool) {
	if c, ok := s.Call(a.CallID); ok && !a.Allowed {
		c.Approved = append(slices.Clip(c.Approved), a.key())
	}
	if always {
		s.Grants = append(slices.Clip(s.Grants), Grant{Approval: a.ID, By: a.By, User: a.User, Tool: a.Tool, Key: a.key(), Turn: a.Turn})
	}
}

func (s *State) applyToolDispatched(ev events.ToolDispatched) {
	if s.inRound(ev.Call) {
		s.Turn.Checked, s.Turn.Held = true, false
		s.resume()
	}
	c, ok := s.Call(ev.Call)
	if !ok {
		return
	}
	c.Attempt, c.Dispatched, c.Asked, c.Ticketed = ev.Attempt, true, nil, s.Tickets
	c.Deadline, c.DetachAt, c.Digest = ev.Deadline, ev.DetachAt, ev.Digest
	c.Routing.Route, c.Routing.Queue = ev.Route, ev.Queue
	if len(ev.Approved) > 0 {
		c.Approved = ev.Approved
	}
}

func (s *State) applyToolAttemptLost(ev events.ToolAttemptLost) {
	if c, ok := s.Call(ev.Call); ok {
		c.Dispatched = false
		c.Lost++
		if c.Retried() {
			c.Letter = LetterDead
		}
	}
}

func (s *State) applyToolResult(ev events.ToolResultReceived) {
	c, ok := s.Call(ev.Result.CallID)
	if !ok {
		return
	}
	r := ev.Result
	if s.Turn != nil && s.Task != nil && c.Turn == s.Turn.ID && c.Routing.Writes && r.Status == content.StatusOK {
		changed := slices.Concat(s.Task.Changed, ev.ChangedPaths)
		slices.Sort(changed)
		s.Task.Changed = slices.Compact(changed)
	}
	if ev.Attempt == c.Attempt {
		c.Dispatched = false // otherwise the core or an earlier attempt answered, and this attempt keeps running
	}
	c.Letter = NoLetter
	if r.Status == content.StatusUnknown && ev.Attempt == 0 && c.Attempt > 0 && c.Lost == c.Attempt {
		c.Letter = LetterDead // the core answers for a runner that was lost
	}
	if ev.Late {
		s.applyLate(c, r)
		return
	}
	if c.Attempt == 0 && s.Turn.Attempt > 0 && (r.Status == content.StatusError || r.Status == content.StatusDenied) {
		s.Turn.Checked = true // only the preflight ends a call like that, unless it came with a resumed round
	}
	c.Status, c.Result = r.Status, &r
	s.place()
}

// applyLate applies the outcome of a call that already has an answer. The model gets a notice, unless a worker
// confirms a cancel or the outcome goes to the host.
func (s *State) applyLate(c *Call, r content.ToolResult) {
	cancelled := r.Status == content.StatusCancelled
	confirms := cancelled && c.Status == content.StatusCancelled
	if !confirms && !c.Routing.Manual {
		s.Notices = append(s.Notices, Notice{Item: content.LateResult(r), Quiet: cancelled || c.Routing.Quiet})
	}
	if c.Status == "" {
		c.Status = r.Status
	}
	c.Late = true
	s.BackgroundApprovals = slices.DeleteFunc(s.BackgroundApprovals, func(a Approval) bool { return a.CallID == c.ID })
	if s.inRound(c.ID) {
		return
	}
	if c.stopping() {
		s.Stops = append(s.Stops, *c)
	}
	s.Background = slices.DeleteFunc(s.Background, func(b Call) bool { return b.Late && b.Letter == NoLetter })
}

func (s *State) applyDeadLetterSettled(ev events.DeadLetterSettled) {
	c, ok := s.Call(ev.Call)
	switch {
	case !ok:
	case ev.Outcome == events.DeadRetried:
		c.Letter = LetterRetried
	default:
		c.Letter = LetterDropped
		s.Background = slices.DeleteFunc(s.Background, func(b Call) bool { return b.Late && b.Letter == LetterDropped })
	}
}

// keepBackground keeps the calls that outlive their round: calls whose real outcome may still arrive, and calls
// that still run although their outcome no longer matters.
func (s *State) keepBackground() {
	for _, c := range s.Turn.Calls {
		switch {
		case c.awaited(), c.DeadLetter():
			s.Background = append(s.Background, c)
		case c.stopping():
			s.Stops = append(s.Stops, c)
		}
	}
}
