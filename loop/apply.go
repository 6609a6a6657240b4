package loop

import (
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Fold applies the next entry of the journal to the state. It returns no error: an entry that cannot follow means
// that the journal is broken, and Fold panics with its position.
func (s *State) Fold(e events.Entry) {
	if d, ok := events.DeletionOf(e); ok && e.Session == s.Session && e.Seq > s.Seq {
		// The tombstone counts even if earlier entries could not be read.
		*s = State{
			Session: e.Session, Seq: e.Seq, At: e.At, Epoch: e.Epoch, Causes: []string{e.Cause},
			Opened: true, Closed: true, Deleted: &d,
		}
		return
	}
	s.follow(e)
	s.begin(e.Seq, e.Cause, max(e.At, s.At))
	for _, ev := range e.Events {
		s.apply(ev)
	}
}

// follow checks that the entry continues the journal and makes it the head.
func (s *State) follow(e events.Entry) {
	if e.Session != s.Session || e.Seq != s.Seq+1 {
		panic(fmt.Sprintf("loop: fold %s/%d into %s/%d", e.Session, e.Seq, s.Session, s.Seq))
	}
	s.Seq, s.Epoch = e.Seq, e.Epoch
	if len(e.Cursors) > 0 { // forks share the cursors
		s.Cursors = events.Advance(slices.Clone(s.Cursors), e.Cursors)
	}
}

// begin updates what every entry changes, before its events are applied.
func (s *State) begin(seq uint64, cause string, at content.Time) {
	s.At, s.Ends = at, nil
	if s.Causes = append(s.Causes, cause); len(s.Causes) > CausesKept {
		commands.Remember(&s.Asks, s.Causes[0], seq-CausesKept)
		s.Causes = s.Causes[1:]
	}
}

// apply applies one event. It contains no policy.
func (s *State) apply(ev events.Event) {
	s.require(ev)
	switch ev := ev.(type) {
	case events.Parked, events.SnapshotTaken, events.Warning:
	case events.CommandSigned:
		s.Signed.Add(s.Causes[len(s.Causes)-1], ev, s.At)
	case events.DriverClaimed:
		s.Epoch, s.Tickets = ev.Epoch, ev.Tickets
	case events.RunStarted:
		s.applyRunStarted(ev)
	case events.ConfigChanged:
		s.Config = ev.Config
	case events.ModelSwitched:
		s.Config.Model, s.Config.ModelData, s.Config.Agent = ev.Model, ev.Data, s.Config.Agent.Claimed()
	case events.PolicyApplied:
		s.Policy = ev.Policy
	case events.InputQueued:
		s.Queue = append(s.Queue, ev)
	case events.InputAccepted:
		s.applyInputAccepted(ev)
	case events.TurnStarted:
		s.applyTurnStarted(ev)
	case events.RoundStarted:
		s.applyRoundStarted(ev)
	case events.RoundFinished:
		s.Turn.Stage, s.Turn.Held = StageBoundary, false
		s.rest()
	case events.ModelCallStarted:
		s.applyModelCallStarted(ev)
	case events.ModelCallFailed:
		s.Turn.Calling, s.Turn.RetryAt, s.Turn.Waits = false, ev.RetryAt, ev.RetryAfter
		s.Turn.RetryUntil = ev.RetryUntil
		if ev.Class == content.ClassLost {
			s.Turn.Lost++
		}
	case events.ReplyRecorded:
		s.applyReply(ev)
	case events.UsageUpdated:
		s.applyUsage(ev)
	case events.ToolCallRequested:
		s.applyToolCallRequested(ev)
	case events.ToolCatalogChanged:
		s.Catalog = s.Catalog.With(ev)
	case events.ApprovalRequired:
		s.applyApprovalRequired(ev)
	case events.ApprovalResolved:
		s.applyApprovalResolved(ev)
	case events.ToolsAllowed:
		s.Allowed = append(slices.Clip(s.Allowed), Allowance{Grant: ev.Grant, By: ev.By, User: ev.User, Tools: ev.Tools})
	case events.ToolDispatched:
		s.applyToolDispatched(ev)
	case events.ToolAttemptLost:
		s.applyToolAttemptLost(ev)
	case events.ToolDetached:
		if c, ok := s.Call(ev.Call); ok {
			c.Placeholder = ev.Placeholder
			s.place()
		}
	case events.ToolResultReceived:
		s.applyToolResult(ev)
	case events.DeadLetterSettled:
		s.applyDeadLetterSettled(ev)
	case events.HookDecided:
		s.applyHookDecided(ev)
	case events.MutationStarted:
		s.applyMutationStarted(ev)
	case events.MutationFinished:
		s.applyMutationFinished(ev)
	case events.LimitReached:
		s.Turn.Limit = &ev
	case events.CancelRequested:
		if ev.Scope != "call" && s.Turn != nil {
			s.Turn.Cancel = &ev
		}
	case events.CacheOverrideSet:
		s.CacheOverride = &ev.Cache
	case events.TaskStarted:
		s.Task = &Task{Name: ev.Task, Spec: ev.Spec}
		old := func(it content.Item) bool { return it.Kind != content.System }
		s.Transcript = slices.DeleteFunc(slices.Clone(s.Transcript), old)
		s.Bytes = content.Weight(s.Transcript...)
		s.Rewritten++
	case events.MemoryRecalled:
		s.Task.Recalled = true
		s.add(ev.Items...)
	case events.VerifyStarted:
		s.Turn.Stage, s.Task.Attempts, s.Task.Running = StageVerify, ev.Attempt, true
	case events.VerifyFinished:
		s.Turn.Stage, s.Task.Running, s.Task.Verify, s.Task.Output = StageVerify, false, ev.Status, ev.Output
	case events.MemoryStored:
		s.Task.Stored = true
	case events.TaskFinished:
		e := s.ended()
		e.Task, e.Verifier = &ev, s.Task.Output
		s.Task = nil
	case events.RunFailed:
		e := s.ended()
		e.Error, e.Failure = &ev, s.Turn.failure(ev)
	case events.TurnFinished:
		s.applyTurnFinished(ev)
	case events.SessionClosed:
		s.Closed = true
	case events.ContentDelta, events.ContentRepeated, events.ToolProgress, events.StateChanged, events.Refused, events.SessionDeleted:
		panic(fmt.Sprintf("loop: %s in the journal of %s/%d", events.KindOf(ev), s.Session, s.Seq))
	}
}

// require panics if the event needs an open turn or task and none is open: Decide did not write this journal.
func (s *State) require(ev events.Event) {
	turn, task := true, false
	switch ev := any(ev).(type) {
	case events.RoundStarted, events.RoundFinished, events.ModelCallStarted, events.ModelCallFailed, events.ReplyRecorded,
		events.ToolCallRequested, events.LimitReached, events.RunFailed, events.TurnFinished, events.ToolDetached:
	case events.MutationStarted:
		turn = ev.Point != pointAfterTurn
	case events.MutationFinished:
		turn = ev.Point != pointAfterTurn
	case events.ToolResultReceived:
		turn = !ev.Late
	case events.ApprovalRequired:
		turn = !s.asksOutsideTurn(ev.Approval.CallID)
	case events.ApprovalResolved:
		turn = !s.asksOutsideTurn(ev.Call)
	case events.VerifyStarted, events.VerifyFinished, events.TaskFinished:
		task = true
	case events.MemoryRecalled, events.MemoryStored:
		turn, task = false, true
	default:
		return
	}
	switch {
	case turn && s.Turn == nil:
		panic(fmt.Sprintf("loop: %s without a turn in %s/%d", events.KindOf(ev), s.Session, s.Seq))
	case task && s.Task == nil:
		panic(fmt.Sprintf("loop: %s without a task in %s/%d", events.KindOf(ev), s.Session, s.Seq))
	}
}

func (s *State) applyRunStarted(ev events.RunStarted) {
	s.Opened, s.Stepped = true, ev.Stepped
	s.Config, s.Catalog = ev.Config, ev.Config.Catalog
	s.Metadata, s.Parent, s.From = ev.Metadata, ev.Parent, ev.From
	s.add(ev.Transcript...)
	for _, c := range content.Calls(ev.Transcript) {
		s.CallIDs.Add(c.ID)
	}
}

func (s *State) applyInputAccepted(ev events.InputAccepted) {
	take := func(taken func(events.InputQueued) bool) {
		s.NoticesFirst = len(s.Notices) > 0
		s.Queue = slices.DeleteFunc(slices.Clone(s.Queue), taken)
	}
	switch ev.Origin {
	case events.FromNotification:
		s.Notices, s.NoticesFirst = nil, false
	case events.FromVerifier: // was never queued
	case events.FromSchema:
		s.Turn.Repairs++
	case events.FromTask:
		take(func(q events.InputQueued) bool { return q.Task != nil })
	case events.FromHost, events.FromParent:
		take(func(q events.InputQueued) bool { return joins(q, s.Turn != nil) })
	}
	s.add(ev.Items...)
	if s.Turn != nil {
		s.Turn.Stage = StageTop
		if ev.Options != nil {
			s.Turn.Options = ev.Options
		}
		s.resume()
	}
}

func (s *State) applyTurnStarted(ev events.TurnStarted) {
	s.Turns++
	s.Turn = &Turn{ID: ev.Turn, N: s.Turns, Trigger: ev.Trigger, Options: ev.Options, Started: s.At, Stage: StageTop, Stale: len(s.Stops)}
	s.After = Mutating{}
}

func (s *State) applyRoundStarted(ev events.RoundStarted) {
	t := s.Turn
	s.resume()
	s.keepBackground()
	t.Round, t.Stage = ev.Round, StageRound
	t.Attempt, t.Calling, t.RetryAt, t.RetryUntil, t.Lost = 0, false, 0, 0, 0
	t.Cache, t.Reply, t.Invalid, t.Replied = nil, "", "", 0
	t.Calls, t.ByID, t.Checked, t.Held, t.Hooks, t.Mut = nil, nil, false, false, nil, Mutating{}
	t.Used.Rounds++
	s.Used.Rounds++
}

func (s *State) applyModelCallStarted(ev events.ModelCallStarted) {
	t := s.Turn
	t.Stage, t.Attempt, t.Calling, t.RetryAt, t.Cache = StageModel, ev.Attempt, true, 0, ev.Cache
	if ev.Attempt == 1 {
		s.CacheOverride = nil
	}
	t.Used.Requests++
	s.Used.Requests++
}

func (s *State) applyReply(ev events.ReplyRecorded) {
	t := s.Turn
	t.Stage, t.Calling, t.RetryAt = StageReplied, false, 0
	t.Reply, t.Replied, t.Invalid = ev.FinishReason, len(ev.Items), ev.Invalid
	from := len(s.Transcript)
	s.add(ev.Items...)
	t.Items = append(t.Items, s.Transcript[from:]...)
}

// applyUsage counts usage. A call that reports usage after its answer has stopped for good.
func (s *State) applyUsage(ev events.UsageUpdated) {
	s.Used.Add(ev)
	stopped := func(c *Call) { c.Dispatched, c.Asked = false, nil }
	if s.Turn != nil {
		s.Turn.Used.Add(ev)
		if i := s.Turn.call(ev.Call); i >= 0 {
			stopped(&s.Turn.Calls[i])
		}
	}
	for _, calls := range [][]Call{s.Background, s.Stops} {
		for i := range calls {
			if calls[i].ID == ev.Call {
				stopped(&calls[i])
			}
		}
	}
}

func (s *State) applyHookDecided(ev events.HookDecided) {
	t := s.Turn
	if t == nil || ev.Turn == "" {
		return
	}
	switch ev.Point {
	case pointCompaction:
		t.Mut.Compacted = 0
	case pointPreTool:
		t.Checked = true
	}
	t.Hooks = append(t.Hooks, HookPoint{Point: ev.Point, Call: ev.Call})
	if ev.Point == pointPostLlm && ev.Action == actionTerminate {
		s.withhold()
	}
}

// mutating returns the progress of the mutators at a point. Without an open turn, that is After.
func (s *State) mutating(point string) *Mutating {
	if s.Turn == nil || point == pointAfterTurn {
		return &s.After
	}
	return &s.Turn.Mut
}

func (s *State) applyMutationStarted(ev events.MutationStarted) {
	m := s.mutating(ev.Point)
	*m = m.at(ev.Point)
	m.Open, m.Ran = true, append(m.Ran, ev.Mutator)
	if s.Turn != nil {
		s.Turn.Held = false
	}
}

func (s *State) applyMutationFinished(ev events.MutationFinished) {
	m := s.mutating(ev.Point)
	m.Open = false
	if !ev.Dirty {
		return
	}
	if ev.Compacts() && ev.Point != pointAfterTurn {
		m.Compacted++
		m.Old, m.New = ev.OldTokens, ev.NewTokens
	}
	s.Transcript, s.Bytes = make([]content.Item, 0, len(ev.Replacement)), 0
	s.add(ev.Replacement...) // items keep their IDs
	s.Rewritten++
}

// failure finds what failed: a model call, a mutator or a tool call. Only failures of a model have a class.
func (t *Turn) failure(ev events.RunFailed) Failure {
	switch {
	case ev.Class != "":
		return Failure{Attempts: t.Attempt, RetryAfter: t.Waits}
	case ev.Code == codeMutatorFailed && len(t.Mut.Ran) > 0:
		return Failure{Mutator: t.Mut.current(), Point: t.Mut.Point}
	case ev.Code == codeToolFailed:
		for _, c := range t.Calls {
			if c.Result != nil && ev.Message == c.failure() {
				return Failure{Call: c.ID, Tool: c.Name, Code: c.Result.Code}
			}
		}
	}
	return Failure{}
}

// ended returns the record of the turn that is about to end. It is a new value because forks share the previous one.
func (s *State) ended() *Ended {
	e := Ended{Turn: s.Turn.ID, N: s.Turn.N}
	if s.Last != nil && s.Last.Turn == s.Turn.ID {
		e = *s.Last
	}
	s.Last = &e
	return s.Last
}

func (s *State) applyTurnFinished(ev events.TurnFinished) {
	e, t := s.ended(), s.Turn
	e.FinishReason, e.Usage, e.Rounds, e.Metadata = ev.FinishReason, ev.Usage, ev.Rounds, ev.Metadata
	e.Items, e.Limit, e.Calls = t.Items, t.Limit, int(t.Used.ToolCalls)
	s.Ends = append(s.Ends, *e)
	s.Stops = slices.Concat(slices.DeleteFunc(slices.Clone(s.Stops[:t.Stale]), Call.expendable), s.Stops[t.Stale:])
	s.keepBackground()
	s.Used.Worked += s.worked()
	s.Turn, s.Task = nil, nil
	s.After = Mutating{Point: pointAfterTurn}
}

// rest starts to measure how long the turn waits for people. resume stops it.
func (s *State) rest() {
	if t := s.Turn; t.Since == 0 && (len(t.Undecided) > 0 || s.Stepped) {
		t.Since = s.At
	}
}

func (s *State) resume() {
	if t := s.Turn; t.Since != 0 {
		t.Waited += s.At.Sub(t.Since)
		t.Since = 0
	}
}
