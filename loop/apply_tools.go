package loop

import (
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func (s *State) applyApprovalRequired(ev events.ApprovalRequired) {
	a := Approval{Approval: ev.Approval, Asked: s.At}
	c, ok := s.Call(a.CallID)
	if ok {
		c.Gates++
		if c.Dispatched {
			c.Gated++ // a late gate: the attempt waits
		}
		if c.Attempt > 0 {
			c.Asked = append(slices.Clip(c.Asked), a.key())
		}
		c.Dispatched = false
	}
	if ok && c.beside() {
		s.Beside = append(s.Beside, a)
		return
	}
	t := s.Turn
	t.Approvals = append(t.Approvals, a)
	t.Checked, t.Held = true, false
	s.rest()
}

func (s *State) applyApprovalResolved(ev events.ApprovalResolved) {
	if s.asksBeside(ev.Call) {
		s.settle(s.Beside, ev)
		return
	}
	t := s.Turn
	s.settle(t.Approvals, ev)
	if !t.undecided("") {
		t.Held = true
		if !s.Stepped {
			s.resume()
		}
	}
}

// settle takes a decision into the gates that it may be about.
func (s *State) settle(all []Approval, ev events.ApprovalResolved) {
	for i := range all {
		if a := &all[i]; a.ID == ev.Approval {
			a.Outcome, a.By = ev.Outcome, ev.By
			a.Allowed = slices.ContainsFunc(s.Allowed, func(w Allowance) bool { return w.Grant == ev.Grant })
			if len(ev.Input) > 0 {
				a.Scope = ev.Scope
			}
			s.applyApproved(*a, ev)
		}
	}
	if len(ev.Input) > 0 {
		s.patch(all, ev)
	}
}

// patch gives a call other arguments; its open gates are about them now.
func (s *State) patch(all []Approval, ev events.ApprovalResolved) {
	for i := range all {
		if a := &all[i]; a.CallID == ev.Call && a.Outcome == "" {
			a.Input, a.Digest = ev.Input, ev.Digest
		}
	}
	if c, ok := s.Call(ev.Call); ok {
		c.Input, c.Digest = ev.Input, ev.Digest
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

func (s *State) applyToolDetached(ev events.ToolDetached) {
	if c, ok := s.Call(ev.Call); ok {
		c.Placeholder = ev.Placeholder
		s.place()
	}
}

func (s *State) applyToolResult(ev events.ToolResultReceived) {
	c, ok := s.Call(ev.Result.CallID)
	if !ok {
		return
	}
	if s.Turn != nil && s.Task != nil && c.Turn == s.Turn.ID && c.Routing.Writes && ev.Result.Status == content.StatusOK {
		s.changed(ev.ChangedPaths)
	}
	if ev.Attempt == c.Attempt {
		c.Dispatched = false // an answer of the core's own, or of an attempt before, leaves it running
	}
	if ev.Late {
		c.Letter = letterOf(*c, ev)
		s.applyLate(c, ev.Result)
		return
	}
	r := ev.Result
	c.Letter = letterOf(*c, ev)
	if c.Attempt == 0 && (r.Status == content.StatusError || r.Status == content.StatusDenied) {
		s.Turn.Checked = true // only its preflight ends a call like that
	}
	c.Status, c.Result = r.Status, &r
	s.place()
}

// applyLate takes in the outcome of a call that was answered before. Nothing is
// told of a worker that agrees to a cancel, nor of what the host wants for itself.
func (s *State) applyLate(c *Call, r content.ToolResult) {
	cancelled := r.Status == content.StatusCancelled
	told := cancelled && c.Status == content.StatusCancelled
	if !told && !c.Routing.Manual {
		s.Notices = append(s.Notices, Notice{Item: notice(*c, r), Quiet: cancelled || c.Routing.Quiet})
	}
	if c.Status == "" {
		c.Status = r.Status
	}
	c.Late = true
	s.Beside = slices.DeleteFunc(s.Beside, func(a Approval) bool { return a.CallID == c.ID })
	if s.inRound(c.ID) {
		return
	}
	if c.stopping() {
		s.Stops = append(s.Stops, *c)
	}
	s.Background = slices.DeleteFunc(s.Background, func(b Call) bool { return b.Late && b.Letter == NoLetter })
}

// changed adds paths to the task's, sorted and once each.
func (s *State) changed(paths []string) {
	for _, p := range paths {
		if i, found := slices.BinarySearch(s.Task.Changed, p); !found {
			s.Task.Changed = slices.Insert(s.Task.Changed, i, p)
		}
	}
}

// notice is how a model is told of an outcome that came after its call was
// answered.
func notice(c Call, r content.ToolResult) content.Item {
	verb := "completed"
	if r.IsError {
		verb = "failed"
	}
	head := content.TextPart("Background tool call " + string(c.ID) + " " + verb + ": " + r.Text())
	return content.NewItem(content.Notification, head, content.ResultPart(r))
}

// place appends the answers of the round's calls to the transcript: each as soon
// as all earlier calls have theirs, so that transcript order is call order.
func (s *State) place() {
	for i := range s.Turn.Calls {
		c := &s.Turn.Calls[i]
		if c.Placed {
			continue
		}
		switch {
		case c.Result != nil:
			it := content.NewItem(content.Tool, content.ResultPart(*c.Result))
			it.Metadata = resultMetadata(*c.Result)
			s.add(it)
		case c.Placeholder != "":
			r := content.NewResult(c.ID, c.Name, content.StatusOK, c.Placeholder)
			s.add(content.NewItem(content.Tool, content.ResultPart(r)))
		default:
			return
		}
		c.Placed = true
	}
}

func resultMetadata(r content.ToolResult) content.Metadata {
	if r.Status == content.StatusOK {
		return nil
	}
	md := content.Metadata{}.With(content.MetaToolStatus, r.Status)
	if r.Code != "" {
		md = md.With(content.MetaFailureCode, r.Code)
	}
	for _, key := range []string{content.MetaInterrupted, content.MetaInterruptReason, content.MetaInterruptStage} {
		if v, ok := r.Metadata.Get(key); ok {
			md = md.With(key, v)
		}
	}
	return md
}

// keepBackground keeps the round's calls whose real outcome may still come, and
// those that run although nobody waits for it; they outlive the round.
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

// stopping reports whether the call was answered while an attempt was out, or while
// one waited for an approval: what works for it elsewhere has to hear of it.
func (c Call) stopping() bool {
	return c.Status != "" && !c.Retried() && (c.Dispatched || len(c.Asked) > 0)
}

// expendable reports whether an answered call need not be looked after any more when a
// whole turn has gone by. A sub-agent that asked goes on once it was refused, and may ask
// again: that it is over shows in what it says it used.
func (c Call) expendable() bool {
	return !slices.ContainsFunc(c.Asked, func(k content.GateKey) bool { return strings.HasPrefix(k.Kind, KindChild) })
}

// StoppingCall finds a call that has to be stopped, or is being, by its place.
func (s *State) StoppingCall(p content.Place) (Call, bool) {
	all := slices.Concat(s.Background, s.Stops)
	if s.Turn != nil {
		all = slices.Concat(s.Turn.Calls, all)
	}
	i := slices.IndexFunc(all, func(c Call) bool { return c.Place == p && c.stopping() })
	if i < 0 {
		return Call{}, false
	}
	return all[i], true
}

// letGo takes in that an answered call has said what it used: it has stopped, and has
// nothing more to ask.
func (s *State) letGo(id content.CallID) {
	if id == "" {
		return
	}
	if c, ok := s.Call(id); ok {
		c.Dispatched, c.Asked = false, nil
	}
	for i := range s.Stops {
		if c := &s.Stops[i]; c.ID == id {
			c.Dispatched, c.Asked = false, nil
		}
	}
}

// awaited reports whether a late outcome of an answered call would still count:
// after a placeholder, after unknown, after a cancel while it ran, and of a dead letter
// that runs once more.
func (c Call) awaited() bool {
	switch {
	case c.Retried():
		return true
	case c.Late:
		return false
	case c.Placeholder != "" && c.Status == "", c.Status == content.StatusUnknown:
		return true
	}
	return c.Status == content.StatusCancelled && c.Dispatched
}

// add appends items to the transcript and gives them their id and time.
func (s *State) add(items ...content.Item) {
	for _, it := range items {
		if it.ID == "" {
			s.Appended++
			it.ID = content.ItemID("i" + strconv.Itoa(s.Appended))
		} else {
			s.Appended = max(s.Appended, ordinal(it.ID))
		}
		if it.CreatedAt == 0 {
			it.CreatedAt = s.At
		}
		s.Transcript = append(s.Transcript, it)
	}
}

// maxOrdinal keeps an id that somebody made up from using the numbers up.
const maxOrdinal = 1 << 30

// ordinal is N of an id iN, which was given here or in a session before this one;
// zero for any other.
func ordinal(id content.ItemID) int {
	digits, ok := strings.CutPrefix(string(id), "i")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n > maxOrdinal {
		return 0
	}
	return n
}

// rewrite replaces the transcript. Items keep their ids; new ones get theirs.
func (s *State) rewrite(items []content.Item) {
	s.Transcript = make([]content.Item, 0, len(items))
	s.add(items...)
}

func (s *State) applyTaskStarted(ev events.TaskStarted) {
	s.Task = &Task{Name: ev.Task, Spec: ev.Spec}
	var system []content.Item
	for _, it := range s.Transcript {
		if it.Kind == content.System {
			system = append(system, it)
		}
	}
	s.Transcript = system
}
