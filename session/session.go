package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// Config says how this process uses a session.
type Config struct {
	Approver extension.Approver // nil: the facades stop with *ApprovalPendingError
	By       string             // recorded with decisions made here; "": the backend's name
}

// Session is one session. Packages agent and client open them.
type Session struct {
	id      content.SessionID
	backend Backend
	config  Config
	ready   chan struct{} // see Ready

	// Guarded by the backend: used within View and Watcher.Applied only.
	stepper stepper
	turns   []*Turn // turns whose end is not known yet
	open    content.TurnID
	manual  []content.CallID // calls whose late results the host fetches with Calls.Drain
	drained []content.Item   // late results that were not fetched yet
	driving bool             // a Next is running
	changed chan struct{}    // closed and replaced with every entry
	asking  *asking          // the running call of the approver, or nil

	live      sync.Mutex // guards what follows; one event at a time reaches the streams
	streams   []*Turn
	compacted []Compaction // since the last step
	ended     int          // the number of the last turn that ended
}

// New returns the session that runs on a backend. Packages agent and client call it.
func New(b Backend, c Config) *Session {
	s := &Session{backend: b, config: c, ready: make(chan struct{}, 1), changed: make(chan struct{})}
	_ = b.View(func(st *loop.State, _ journal.Head) {
		s.id = st.Session
		s.stepper = newStepper(s, st)
		s.open = openTurn(st)
		s.ended = s.stepper.turns
		for _, c := range openCalls(st) {
			if call, ok := st.Call(c.Call); ok && call.Routing.Manual {
				s.manual = append(s.manual, c.Call)
			}
		}
		s.signal(st)
	})
	b.Watch(Watcher{Applied: s.applied, Live: s.forward, Stopped: s.wakeIdle})
	return s
}

// ID is the session's id.
func (s *Session) ID() content.SessionID { return s.id }

// Head returns the end of the session's journal, as far as it has arrived here.
func (s *Session) Head() (h journal.Head) {
	_ = s.backend.View(func(_ *loop.State, head journal.Head) { h = head })
	return h
}

// Config returns the session's configuration as it is now.
func (s *Session) Config() (c events.Config) {
	s.view(func(st *loop.State) { c = st.Config })
	return c
}

// From returns the entry of another session that this one continues, as an events.EntryRef, or "".
func (s *Session) From() (from string) {
	s.view(func(st *loop.State) { from = st.From })
	return from
}

// Policy returns what the policy of the session's host allows the session now.
func (s *Session) Policy() (p events.Policy) {
	s.view(func(st *loop.State) { p = st.Policy })
	return p
}

// OpenTurn returns the id of the open turn, or "".
func (s *Session) OpenTurn() (id content.TurnID) {
	s.view(func(st *loop.State) { id = openTurn(st) })
	return id
}

func openTurn(st *loop.State) content.TurnID {
	if st.Turn == nil {
		return ""
	}
	return st.Turn.ID
}

// IsClosed reports whether the session was closed. It accepts no input then.
func (s *Session) IsClosed() (closed bool) {
	s.view(func(st *loop.State) { closed = st.Closed })
	return closed
}

// PendingApprovals returns the approvals that must be decided, in the order in which they were
// requested.
func (s *Session) PendingApprovals() (all []events.Approval) {
	s.view(func(st *loop.State) { all = st.PendingApprovals() })
	return all
}

// Close stops driving or following the session. The session does not change and can be opened
// again. A session of a deployment continues without the caller.
func (s *Session) Close(ctx context.Context) error { return s.backend.Close(ctx) }

// Ask sends a command to the session and returns once it is recorded. A refusal is an
// *InvalidStateError; a command that would change nothing succeeds. In a deployment, Ask returns
// ErrNoAnswer if ctx ends before a driver takes the command. The command may still be handled
// later.
func (s *Session) Ask(ctx context.Context, c commands.Command) error {
	return s.ask(ctx, ulid.Make().String(), "", c)
}

// AskAs is Ask for a command with an ID. A command that was recorded under that ID is not decided again.
func (s *Session) AskAs(ctx context.Context, id string, c commands.Command) error {
	return s.ask(ctx, id, "", c)
}

// ask is Ask for a command about a call, if one is named.
func (s *Session) ask(ctx context.Context, id string, call content.CallID, c commands.Command) error {
	err := s.backend.Ask(ctx, id, c)
	if r, ok := errors.AsType[*commands.Rejection](err); ok {
		return &InvalidStateError{Op: commands.NameOf(c), Reason: r.Reason, Call: call, Detail: r.Detail}
	}
	return err
}

// OnBusy says what happens to input that arrives while a turn is open.
type OnBusy = events.OnBusy

// The policies for input that arrives while a turn is open.
const (
	Steer         = events.Steer     // joins at the next round boundary
	Queue         = events.Queue     // starts the next turn
	InterruptTurn = events.Interrupt // cancels the open turn, then runs
	Reject        = events.Reject    // is refused: ErrInvalidState
)

// Send submits input without following its turn.
func (s *Session) Send(ctx context.Context, b OnBusy, items ...content.Item) error {
	return s.Ask(ctx, commands.SubmitInput{Items: items, OnBusy: b})
}

// Cancel ends the turn that OpenTurn returns now, never a later one. If that turn has ended
// meanwhile, or no turn is open, Cancel returns ErrInvalidState. An empty reason means
// user_cancelled.
func (s *Session) Cancel(ctx context.Context, reason string) error {
	return s.Ask(ctx, commands.Cancel{Scope: commands.ScopeTurn, Reason: reason, Turn: s.OpenTurn()})
}

// Decision decides an approval.
type Decision struct {
	Call    content.CallID // decides the oldest undecided approval of this call; "": the session's only one
	Approve bool
	Always  bool            // with Approve: the same question about the same tool is not asked again
	Input   json.RawMessage // with Approve: the call runs with these arguments; nil: with the model's arguments
	Reason  string
	By      string // "": Config.By
}

// ResolveApproval decides an approval. The transcript keeps the model's arguments even if the
// decision has others. If the arguments do not match the tool's schema, or if the decision names no
// call and the number of undecided approvals is not one, ResolveApproval returns ErrInvalidState
// and the approval stays open.
func (s *Session) ResolveApproval(ctx context.Context, v Decision) error {
	return s.ask(ctx, ulid.Make().String(), v.Call, commands.ResolveApproval{
		Call: v.Call, Approve: v.Approve, Always: v.Always, Input: v.Input, Reason: v.Reason, By: cmp.Or(v.By, s.config.By),
	})
}

// Grant allows the tools that match the patterns for the rest of the session: the session's rules
// no longer ask about their calls. Policies still apply.
func (s *Session) Grant(ctx context.Context, patterns ...string) error {
	return s.Ask(ctx, commands.AllowTools{Tools: patterns, By: s.config.By})
}

// SwitchModel changes the session's model, from its next model call on. Data is what opening the
// model needs besides its name, as from [registry.Data]. SwitchModel returns ErrInvalidState if
// the host cannot use the model, and always for a session in this process: it uses the model of
// its agent.
//
// [registry.Data]: https://pkg.go.dev/github.com/turnlog/turnlog/model/registry#Data
func (s *Session) SwitchModel(ctx context.Context, name string, data []byte) error {
	return s.Ask(ctx, commands.SwitchModel{Model: name, Data: data})
}

// SetNextTurnCache sets the cache request of the next model call only.
func (s *Session) SetNextTurnCache(ctx context.Context, c model.CacheRequest) error {
	return s.Ask(ctx, commands.SetNextTurnCache{Cache: c})
}

// view calls f with the current state, even if the backend has stopped.
func (s *Session) view(f func(st *loop.State)) {
	_ = s.backend.View(func(st *loop.State, _ journal.Head) { f(st) })
}

// Ready returns a channel that holds an element while Next would return something other than
// AwaitingInput, because something arrived while no Next was running.
func (s *Session) Ready() <-chan struct{} { return s.ready }

// signal updates the channel of Ready. It is called within View or Applied.
func (s *Session) signal(st *loop.State) {
	if s.driving {
		return
	}
	if s.stepper.more(st) {
		select {
		case s.ready <- struct{}{}:
		default:
		}
		return
	}
	select {
	case <-s.ready:
	default:
	}
}

// applied records what a new entry means for steps, turns and streams. The backend calls it.
func (s *Session) applied(st *loop.State, rec journal.Record) {
	s.live.Lock()
	if st.Last != nil {
		s.ended = st.Last.N
	}
	for i, ev := range rec.Entry.Events {
		own := s.track(rec.Entry.Cause, ev)
		s.note(ev)
		for _, t := range s.streams {
			t.updates.put(Update{Record: &rec, Event: ev, Own: own(t), Last: i == len(rec.Entry.Events)-1})
		}
	}
	s.live.Unlock()
	s.stepper.collect(st)
	s.deliverEnds()
	if s.asking != nil && !undecided(st, s.asking.approval) {
		s.asking.cancel(errDecided)
	}
	s.wakeIdle()
	s.signal(st)
}

// wakeIdle wakes Calls.WaitIdle, which checks again.
func (s *Session) wakeIdle() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// forward forwards an event that is not recorded.
func (s *Session) forward(ev events.Event) {
	s.live.Lock()
	defer s.live.Unlock()
	if engine.Late(ev, s.ended) {
		return
	}
	for _, t := range s.streams {
		t.updates.put(Update{Event: ev})
	}
}

// note keeps what steps and Calls.Drain return. An event comes as any, since a switch
// over events.Event must know all kinds.
func (s *Session) note(ev any) {
	switch ev := ev.(type) {
	case events.ToolCallRequested:
		if ev.Routing.Manual {
			s.manual = append(s.manual, ev.Call.ID)
		}
	case events.ToolResultReceived:
		s.keepManual(ev)
	case events.MutationFinished:
		if ev.Compacts() {
			s.compacted = append(s.compacted, Compaction{ev.OldTokens, ev.NewTokens})
		}
	case events.ReplyRecorded:
		if ev.FinishReason == content.Compaction {
			s.compacted = append(s.compacted, Compaction{})
		}
	}
}
