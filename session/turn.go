package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// Input is the input of Submit.
type Input struct {
	Items   []content.Item
	OnBusy  OnBusy              // zero: Steer
	Options *events.TurnOptions // nil: none; they restrict the turn that accepts the input
	ID      string              // "": a new one; input with the same id counts once
}

// Turn is the turn that accepted an input, or will. It belongs to one goroutine, except
// for Close.
type Turn struct {
	s       *Session
	left    context.Context //nolint:containedctx // over after Close
	leave   context.CancelFunc
	updates *mailbox // nil: not followed; guarded by Session.live

	past   bool   // Updates begin with the turn's first entry
	replay uint64 // Updates begin with the turn's entries up to this one; 0: none

	// Guarded by the backend.
	cause  string // cause of the entry that queues the input; "": any input
	task   bool   // the input is a goal
	steers bool   // the input may join an open turn
	queued bool   // the input was recorded
	id     content.TurnID
	end    *turnEnd
}

// Submit submits input and returns the turn that will accept it: the open one, if the input
// steers it, or a later one. It returns once the input is recorded. Like Next, it refuses to
// pass an approval that Next returned and that is undecided; nothing is recorded then.
func (s *Session) Submit(ctx context.Context, in Input) (*Turn, error) {
	t := s.newTurn()
	t.steers = in.OnBusy == Steer
	return s.begin(ctx, t, cmp.Or(in.ID, ulid.Make().String()),
		commands.SubmitInput{Items: in.Items, OnBusy: in.OnBusy, Options: in.Options})
}

func (s *Session) newTurn() *Turn {
	t := &Turn{s: s}
	t.left, t.leave = context.WithCancel(context.Background())
	return t
}

// begin submits the command whose input the turn accepts.
func (s *Session) begin(ctx context.Context, t *Turn, id string, c commands.Command) (*Turn, error) {
	if ctx.Err() != nil {
		return nil, &CancelledError{Reason: contextReason(ctx)}
	}
	if err := s.passable(commands.NameOf(c)); err != nil {
		return nil, err
	}
	t.cause = id
	s.keep(t)
	t.box()
	if err := s.ask(ctx, id, "", c); err != nil {
		t.unfollow()
		return nil, err
	}
	s.view(func(st *loop.State) {
		if !t.queued { // it was recorded before, under the same id
			t.cause, t.queued, t.steers = "", true, true
			s.adopt(t, st)
		}
	})
	return t, nil
}

// Open returns the open turn, or the turn that queued input will open, or the last turn if Next has
// not returned its end. If there is none of them, Next and Wait of the result return ErrInvalidState.
// If the turn has begun, its Updates start with its first entry.
func (s *Session) Open() *Turn {
	t := s.newTurn()
	t.queued, t.steers, t.past = true, true, true
	s.keep(t)
	return t
}

// Turn returns the turn with an ID: an open or future turn, or the last one that ended. Its Updates
// start with its first entry.
func (s *Session) Turn(id content.TurnID) *Turn {
	t := s.newTurn()
	t.id, t.queued, t.past = id, true, true
	s.keep(t)
	return t
}

// Latest returns the turn that is open or will open, like Open, or else the last one that ended, even
// if that was before the session was opened here. Without any turn, it returns nil.
func (s *Session) Latest() *Turn {
	var ended content.TurnID
	var idle bool
	s.view(func(st *loop.State) {
		idle = st.Turn == nil && st.Task == nil && len(st.Queue) == 0 && loop.Waiting(st) == commands.WaitInput
		if st.Last != nil {
			ended = st.Last.Turn
		}
	})
	switch {
	case !idle:
		return s.Open()
	case ended == "":
		return nil
	}
	return s.Turn(ended)
}

// keep finds the turn and how it ended, now or later.
func (s *Session) keep(t *Turn) {
	s.view(func(st *loop.State) {
		s.adopt(t, st)
		if t.end == nil && !slices.Contains(s.turns, t) {
			s.turns = append(s.turns, t)
		}
	})
}

// adopt finds the turn of any input: see Open.
func (s *Session) adopt(t *Turn, st *loop.State) {
	switch {
	case t.cause != "" || t.id != "":
	case st.Turn != nil:
		t.id = st.Turn.ID
	case st.Task == nil && len(st.Queue) == 0 && loop.Waiting(st) != commands.WaitReady && len(s.stepper.ended) > 0:
		t.id = s.stepper.ended[len(s.stepper.ended)-1].Turn
	}
	if t.id == "" || t.end != nil {
		return
	}
	if t.end = s.stepper.endOf(t.id); t.end == nil && st.Last != nil && st.Last.Turn == t.id {
		t.end = &turnEnd{Ended: *st.Last, transcript: slices.Clip(st.Transcript), returned: true}
	}
}

// Close stops following the turn, which continues. A running Next, Wait or Updates, and any later
// one, returns ErrLeft unless the turn has ended. Close may be called from any goroutine.
func (t *Turn) Close() {
	t.leave()
	t.unfollow()
}

// followed returns a copy of ctx that Close ends as well.
func (t *Turn) followed(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.left, func() { end(ErrLeft) })
	return ctx, func(cause error) {
		stop()
		end(cause)
	}
}

func (t *Turn) isClosed() bool { return t.left.Err() != nil }

// unfollow stops tracking the turn.
func (t *Turn) unfollow() {
	t.dropUpdates()
	t.s.view(func(*loop.State) {
		t.s.turns = slices.DeleteFunc(t.s.turns, func(o *Turn) bool { return o == t })
	})
}

// dropUpdates drops the updates of a turn that has no reader.
func (t *Turn) dropUpdates() {
	t.s.live.Lock()
	defer t.s.live.Unlock()
	t.s.streams = slices.DeleteFunc(t.s.streams, func(o *Turn) bool { return o == t })
	t.updates = nil
}

// ID is the turn's id, or "" while the input is queued.
func (t *Turn) ID() (id content.TurnID) {
	t.s.view(func(*loop.State) { id = t.id })
	return id
}

// Next advances the turn to its next step: the end of a round of tools, an approval, or its own
// end. It skips the ends of earlier turns. When ctx ends, the turn is cancelled, but input that is
// queued after another turn stays queued. If no driver takes the cancel, Next returns ErrNoAnswer.
// A failed turn is an error, as for Session.Next.
func (t *Turn) Next(ctx context.Context) (Step, error) {
	patience, leave := t.followed(context.WithoutCancel(ctx))
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		t.giveUp(ctx, patience, leave)
	})
	defer func() {
		leave(nil)
		if !stop() {
			<-cancelled // so that it does not cancel a later turn
		}
	}()
	for {
		switch end := t.ended(); {
		case end != nil && (end.returned || t.isClosed()): // Session.Next has returned it
			return t.s.finish(end)
		case t.isClosed():
			return nil, ErrLeft
		}
		step, end, err := t.s.next(patience, ctx, t)
		switch {
		case err != nil && t.isClosed():
			return nil, ErrLeft
		case err != nil:
			return nil, err
		case end != nil && end.Turn == t.ID():
			return t.s.finish(end)
		case end != nil:
			continue
		}
		if _, idle := step.(*AwaitingInput); !idle {
			return step, nil
		}
		if t.cause == "" {
			return nil, &InvalidStateError{Op: "run", Reason: commands.ReasonEmptyInput, Detail: "no turn is open and no input is queued"}
		}
		return nil, &InvalidStateError{Op: "run", Reason: "cancelled_before_start"}
	}
}

// cancelWithin limits how long a driver may take to accept a cancel.
const cancelWithin = 10 * time.Second

// giveUp cancels the turn because its context, over, has ended. If the turn is not open yet, next
// cancels it later. If the turn is queued after another one, or the session has no driver, giveUp
// stops following the turn. It repeats the cancel until the turn has ended: the driver that took it
// may die.
func (t *Turn) giveUp(over, patience context.Context, leave context.CancelCauseFunc) {
	var held bool
	t.s.view(func(st *loop.State) {
		between := t.id == "" && st.Turn == nil && st.Task == nil && loop.Waiting(st) == commands.WaitWorking // a mutator runs after a turn
		held = t.isQueued(st) || between
	})
	if held {
		leave(&CancelledError{Reason: contextReason(over)})
		return
	}
	for patience.Err() == nil {
		ctx, stop := context.WithTimeout(patience, cancelWithin)
		if err := t.cancel(ctx, over, true); err != nil && ctx.Err() != nil {
			leave(err)
		}
		<-ctx.Done()
		stop()
	}
}

// cancel cancels the turn if it is open. The reason is the cause with which its context, over, ended.
// A turn that was cancelled before is cancelled again only if again is set.
func (t *Turn) cancel(ctx, over context.Context, again bool) error {
	var open bool
	c := commands.Cancel{Scope: commands.ScopeTurn, Reason: contextReason(over)}
	t.s.view(func(st *loop.State) {
		open = t.isOpen(st) && (st.Turn == nil && st.Task != nil || st.Turn != nil && (again || st.Turn.Cancel == nil))
		c.Turn = openTurn(st)
	})
	if !open {
		return nil
	}
	err := t.s.Ask(ctx, c)
	if errors.Is(err, ErrInvalidState) {
		return nil // it has just ended
	}
	return err
}

// isOpen reports whether cancelling the open turn cancels this one. It is false after Close.
func (t *Turn) isOpen(st *loop.State) bool {
	if t.end != nil || t.isClosed() || t.isQueued(st) {
		return false
	}
	return t.id == "" || st.Turn != nil && st.Turn.ID == t.id
}

// isQueued reports whether the input waits for the end of another turn.
func (t *Turn) isQueued(st *loop.State) bool {
	return t.cause != "" && t.id == "" && !t.steers && st.Turn != nil && st.Turn.Cancel == nil
}

// foreign reports whether a live event of the turn belongs to another one.
func (t *Turn) foreign(turn content.TurnID) (foreign bool) {
	t.s.view(func(st *loop.State) {
		foreign = t.id != "" && t.id != turn || t.id == "" && st.Turn != nil && st.Turn.ID == turn
	})
	return foreign
}

// Result returns how the turn ended, or nil if it has not.
func (t *Turn) Result() *TurnResult {
	end := t.ended()
	if end == nil {
		return nil
	}
	r := resultOf(&end.Ended)
	return &r
}

func (t *Turn) ended() (end *turnEnd) {
	t.s.view(func(*loop.State) { end = t.end })
	return end
}

// Wait runs the turn to its end; Config.Approver decides approvals. It returns what
// Session.Run returns.
func (t *Turn) Wait(ctx context.Context) (*RunResult, error) {
	t.dropUpdates()
	return t.wait(ctx)
}

func (t *Turn) wait(ctx context.Context) (*RunResult, error) {
	defer t.unfollow()
	for {
		step, err := t.Next(ctx)
		if err != nil {
			return nil, err
		}
		switch step := step.(type) {
		case *ApprovalRequest:
			if err := t.approve(ctx, step); err != nil {
				return nil, err
			}
		case *Finished:
			return step.Outcome()
		case *AfterToolResult, *AwaitingInput:
		}
	}
}

// CancelReason is the cause of a context whose end cancels a turn. It is recorded as the
// reason.
type CancelReason string //nolint:errname // it is recorded as it is

// Error returns the reason.
func (r CancelReason) Error() string { return string(r) }

const errConsumerLeft CancelReason = "consumer_left"

// contextReason returns the reason for cancelling a turn whose context ended.
func contextReason(ctx context.Context) string {
	if r, ok := errors.AsType[CancelReason](context.Cause(ctx)); ok {
		return string(r)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "deadline"
	}
	return "context_done"
}

// track notes which turn accepted an input. The function that it returns reports whether the event
// belongs to a turn. Like deliverEnds, it is called within Applied.
func (s *Session) track(cause string, ev any) func(*Turn) bool {
	before := s.open
	s.open = openAfter(s.open, ev)
	switch ev := ev.(type) {
	case events.InputQueued:
		for _, t := range s.turns {
			t.queued = t.queued || t.cause == cause
		}
	case events.InputAccepted:
		for _, t := range s.turns {
			if t.id == "" && t.takes(ev, before != "") {
				t.id = ev.Turn
			}
		}
	case events.TurnStarted:
		s.streams = slices.DeleteFunc(s.streams, func(t *Turn) bool { return t.end != nil })
	}
	_, plans := ev.(events.TaskStarted)
	after := s.open
	return func(t *Turn) bool {
		return t.id != "" && (t.id == before || t.id == after) || plans && t.task && t.queued && t.id == ""
	}
}

// openAfter returns the turn that is open after an event, or "". A turn begins with the input that
// it accepts, before its TurnStarted.
func openAfter(open content.TurnID, ev any) content.TurnID {
	switch ev := ev.(type) {
	case events.InputAccepted:
		return cmp.Or(open, ev.Turn)
	case events.TurnStarted:
		return ev.Turn
	case events.TurnFinished:
		return ""
	}
	return open
}

// takes reports whether a merge includes the turn's input. Steering input joins at the end of a
// round; between turns, all queued input joins. A goal gets its own turn.
func (t *Turn) takes(ev events.InputAccepted, open bool) bool {
	switch ev.Origin {
	case events.FromTask:
		return t.queued && (t.task || t.cause == "") && !open
	case events.FromHost, events.FromParent:
		return t.queued && !t.task && (!open || t.steers)
	case events.FromNotification, events.FromVerifier, events.FromSchema:
	}
	return t.cause == "" && !open
}

// deliverEnds passes the known ends to the turns that wait for them.
func (s *Session) deliverEnds() {
	s.turns = slices.DeleteFunc(s.turns, func(t *Turn) bool {
		if t.id != "" && t.end == nil {
			t.end = s.stepper.endOf(t.id)
		}
		return t.end != nil
	})
}
