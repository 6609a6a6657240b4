package session

import (
	"slices"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/worker/task"
)

// Snapshot is a copy of the session's state. It survives a round trip through JSON.
type Snapshot struct {
	SessionID        content.SessionID   `json:"session_id"`
	Seq              uint64              `json:"seq"`
	Hash             events.Hash         `json:"hash"`
	Transcript       []content.Item      `json:"transcript"`
	PendingInput     []content.Item      `json:"pending_input,omitempty"`
	PendingApprovals []events.Approval   `json:"pending_approvals,omitempty"`
	Results          []content.Item      `json:"results,omitempty"` // results of the open round that are not in the transcript yet: an earlier call has none
	Turn             content.TurnID      `json:"turn,omitempty"`
	Round            int                 `json:"round,omitempty"`
	Phase            events.Phase        `json:"phase"`           // phase of the open task; idle: there is none
	Calls            []task.Info         `json:"calls,omitempty"` // open and in the background
	Usage            content.Usage       `json:"usage"`
	Requests         int64               `json:"requests"` // model calls over the session's life
	ToolCalls        int64               `json:"tool_calls"`
	Rounds           int64               `json:"rounds"`
	Worked           time.Duration       `json:"worked_ns,omitempty"`  // by finished turns
	TurnUsed         *Used               `json:"turn_used,omitempty"`  // of the open turn's limits; nil: no turn is open
	NextCache        *model.CacheRequest `json:"next_cache,omitempty"` // of the next model call only
	LastTurn         *TurnResult         `json:"last_turn,omitempty"`
	State            []byte              `json:"state,omitempty"` // the complete state, as package loop/snapshot encodes it
}

// Used says how much of its limits a turn has used.
type Used struct {
	Rounds    int64         `json:"rounds"`
	Requests  int64         `json:"requests"`
	ToolCalls int64         `json:"tool_calls"`
	Usage     content.Usage `json:"usage"`
}

// Snapshot returns the session's current state.
func (s *Session) Snapshot() (snap Snapshot) {
	_ = s.backend.View(func(st *loop.State, head journal.Head) { snap = SnapshotOf(st, head.Hash) })
	return snap
}

func pendingInput(s *loop.State) []content.Item {
	var items []content.Item
	for _, q := range s.Queue {
		items = append(items, content.DetachItems(q.Items)...)
	}
	return items
}

// unplaced returns the results that wait for the result of an earlier call.
func unplaced(calls []loop.Call) (items []content.Item) {
	for _, c := range calls {
		if answer, ok := c.Answer(); ok && !c.Placed {
			items = append(items, answer)
		}
	}
	return content.DetachItems(items)
}

// SnapshotOf returns the snapshot of a state.
func SnapshotOf(s *loop.State, hash events.Hash) Snapshot {
	snap := project(s, hash)
	if raw, err := snapshot.Encode(s); err == nil { // fails only for a state that no journal can produce
		snap.State = raw
	}
	return snap
}

// project returns a snapshot without the encoded state.
func project(s *loop.State, hash events.Hash) Snapshot {
	f := s.Fork()
	snap := Snapshot{
		SessionID: f.Session, Seq: f.Seq, Hash: hash, Transcript: content.DetachItems(f.Transcript), PendingInput: pendingInput(&f),
		PendingApprovals: f.PendingApprovals(), Phase: f.Phase(), Calls: openCalls(&f), Usage: f.Used.Usage,
		Requests: f.Used.Requests, ToolCalls: f.Used.ToolCalls, Rounds: f.Used.Rounds, Worked: f.Used.Worked, NextCache: f.CacheOverride,
	}
	if f.Turn != nil {
		u := f.Turn.Used
		snap.Turn, snap.Round, snap.Results = f.Turn.ID, f.Turn.Round, unplaced(f.Turn.Calls)
		snap.TurnUsed = &Used{Rounds: u.Rounds, Requests: u.Requests, ToolCalls: u.ToolCalls, Usage: u.Usage}
	}
	if f.Last != nil {
		r := resultOf(f.Last)
		snap.LastTurn = &r
	}
	return snap
}

// From names the snapshot in the journal that begins with it.
func (s *Snapshot) From() string {
	return events.EntryRef{Session: s.SessionID, Seq: s.Seq, Hash: s.Hash}.String()
}

// Continuation returns the transcript with which another session can continue. Running calls stay
// with the original session, and get a result that says so. If a turn is open in the middle of a
// round, or between two, that round ends the transcript, and open is true: see
// commands.OpenSession.Resume.
func (s *Snapshot) Continuation() (items []content.Item, open bool) {
	items = slices.Clone(s.Transcript)
	before, reply, results := content.OpenRound(items)
	results = slices.Concat(results, s.Results)
	open = s.Turn != "" && s.Phase == events.Idle && len(reply) > 0
	for _, it := range content.Unanswered(reply, results, content.StatusNotExecuted, "Not run: the session was continued in another one") {
		r := it.Parts[0].Result
		if slices.ContainsFunc(s.Calls, func(i task.Info) bool { return i.Call == r.CallID && i.Running }) {
			unknown := content.NewResult(r.CallID, r.Name, content.StatusUnknown, "Outcome unknown: it was running when the session was continued in another one")
			it = content.ResultItem(unknown)
		} else if open {
			continue
		}
		results = append(slices.Clip(results), it)
	}
	return slices.Concat(before, reply, results), open
}

func resultOf(e *loop.Ended) TurnResult {
	return TurnResult{
		TurnID: e.Turn, FinishReason: e.FinishReason, Items: content.DetachItems(e.Items), Usage: e.Usage, Rounds: e.Rounds,
		Metadata: e.Metadata, Limit: e.Limit, Task: taskResult(e),
	}
}
