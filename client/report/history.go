package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/client/seek"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// Calls finds what a session's journal says about its calls, and reads no more of the journal than it needs.
type Calls struct {
	From  Entries     // such as a client
	State *loop.State // the session as it was read
	Head  journal.Head
}

// Entries gives access to the entries of sessions.
type Entries interface {
	seek.Store

	// RecordsFrom yields a session's current entries after head.
	RecordsFrom(context.Context, content.SessionID, journal.Head) iter.Seq2[journal.Record, error]
}

// Call is a call and what happened to it. Its JSON form is a dead letter.
type Call struct {
	Session  content.SessionID `json:"session"`
	Call     content.CallID    `json:"call"`
	Tool     string            `json:"tool"`
	State    string            `json:"state"` // dead, again or dropped (a dead letter), waiting, approval, running, background, over (it has an outcome, or its session is closed), or aside (a session, not a call)
	Effects  string            `json:"effects"`
	Queue    string            `json:"queue"`
	Turn     content.TurnID    `json:"turn"`
	Round    int               `json:"round"`
	Input    json.RawMessage   `json:"input"`
	Model    json.RawMessage   `json:"model_input,omitempty"` // the model's input, if it was changed
	Attempts int               `json:"attempts"`              // dispatched attempts
	Lost     []LostAttempt     `json:"lost"`
	Settled  []Settlement      `json:"settled"` // by people
	Result   string            `json:"result"`  // the status of its last result, or ""

	Questions []*Question `json:"-"`

	place   content.Place
	changed string // who changed the input last
	running bool   // an attempt is running, or its outcome is unknown
	late    bool   // it got an outcome after it was answered
}

// Question is an approval of a call, and how it was decided.
type Question struct {
	Approval
	Outcome events.Outcome `json:"outcome"` // pending, approved, denied, expired, cancelled or moot
	Decided string         `json:"decided"` // how, by whom and when; "": pending
}

// Pending is the outcome of an undecided question.
const Pending events.Outcome = "pending"

// LostAttempt is an attempt whose worker was lost.
type LostAttempt struct {
	Attempt int          `json:"attempt"`
	At      content.Time `json:"at"`
	Reason  string       `json:"reason"`
}

// Settlement is a person's decision about a dead letter.
type Settlement struct {
	Outcome events.Settlement `json:"outcome"`
	By      string            `json:"by"`
	User    string            `json:"user,omitempty"` // verified; see content.Sender
	Reason  string            `json:"reason"`
	At      content.Time      `json:"at"`
}

// Find returns the call with an ID that a list shows: the call's own, its place, or that of one of its
// approvals. It returns nil if there is none. It reads from the round of the call on. It reads all entries
// only if no item that models see tells the round.
func (c Calls) Find(ctx context.Context, id content.CallID) (*Call, error) {
	turn, round, ok := c.roundOf(id)
	if !ok {
		return nil, nil //nolint:nilnil // there is none
	}
	var found *Call
	err := c.read(ctx, turn, round, func(h *history) bool {
		if found = h.find(id); found == nil {
			return turn > 0 && h.past(turn, round)
		}
		return h.complete(found)
	})
	return found, err
}

// Dead returns the session's dead letters.
func (c Calls) Dead(ctx context.Context) (all []*Call, err error) {
	letters := c.State.DeadLetters()
	for len(letters) > 0 {
		turn, round := letters[0].Turn, letters[0].Round
		same := func(l loop.Call) bool { return l.Turn == turn && l.Round == round }
		n := slices.IndexFunc(letters, func(l loop.Call) bool { return !same(l) })
		if n < 0 {
			n = len(letters)
		}
		var found []*Call
		err = c.read(ctx, turn.Number(), round, func(h *history) bool {
			found = nil
			for _, l := range letters[:n] {
				if p := h.find(l.ID); p != nil {
					found = append(found, p)
				}
			}
			return len(found) == n && !slices.ContainsFunc(found, func(p *Call) bool { return !h.complete(p) })
		})
		if err != nil {
			return nil, err
		}
		all, letters = append(all, found...), letters[n:]
	}
	return all, nil
}

// Change is what a person changed the arguments of a call to.
type Change struct {
	Input json.RawMessage `json:"input" doc:"the tool gets these"`
	By    string          `json:"by" doc:"who changed them"`
}

// Changed returns the calls in items of the transcript whose arguments people changed. It reads from the first
// of these calls on, until later entries add nothing about them.
func (c Calls) Changed(ctx context.Context, items []content.Item) (map[content.CallID]Change, error) {
	var calls []content.ToolCall
	var first, last [2]int // turn and round
	for _, it := range items {
		for _, call := range it.Calls() {
			turn, round, _, err := content.ParsePlace(string(call.Place))
			if err != nil {
				continue
			}
			at := [2]int{turn, round}
			if len(calls) == 0 || slices.Compare(at[:], first[:]) < 0 {
				first = at
			}
			if slices.Compare(at[:], last[:]) > 0 {
				last = at
			}
			calls = append(calls, call)
		}
	}
	all := map[content.CallID]Change{}
	if len(calls) == 0 {
		return all, nil
	}
	var read *history
	left := calls
	err := c.read(ctx, first[0], first[1], func(h *history) bool {
		read = h
		for len(left) > 0 {
			found := h.find(left[0].ID) // not if the call is from before a fork
			if found == nil && !h.past(last[0], last[1]) || found != nil && !h.complete(found) {
				return false
			}
			left = left[1:]
		}
		return true
	})
	for _, call := range calls {
		if read == nil {
			break
		}
		if found := read.find(call.ID); found != nil && found.Model != nil {
			all[call.ID] = Change{found.Input, found.changed}
		}
	}
	return all, err
}

// roundOf returns the round of a call, or zeros if it is unknown. ok is false if there is no such call.
func (c Calls) roundOf(id content.CallID) (turn, round int, ok bool) {
	place := PlaceOf(id)
	now, ok := c.State.Call(id)
	if !ok {
		now, ok = c.State.CallAt(place)
	}
	if ok {
		return now.Turn.Number(), now.Round, true
	}
	for _, it := range slices.Backward(c.State.Transcript) {
		for _, call := range it.Calls() {
			if call.ID == id {
				place = call.Place
			}
		}
	}
	if turn, round, _, err := content.ParsePlace(string(place)); err == nil {
		return turn, round, true
	}
	if of, verification, _ := strings.Cut(string(place), "-v"); verification != "" {
		turn, _ = strconv.Atoi(strings.TrimPrefix(of, "t"))
		attempt, err := strconv.Atoi(verification)
		if err == nil && content.VerifierPlace(turn, attempt) == place {
			return turn, 0, true
		}
	}
	return 0, 0, c.State.CallIDs.Has(id)
}

// read reads entries from the beginning of a round, or all of them, until enough returns true.
func (c Calls) read(ctx context.Context, turn, round int, enough func(*history) bool) error {
	at := journal.Head{}
	if turn > 0 {
		rec, err := seek.Round(ctx, c.From, c.State.Session, c.Head, turn, round)
		if errors.Is(err, session.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		at = seek.Before(rec)
	}
	return c.readFrom(ctx, at, func(h *history, _ journal.Record) bool { return enough(h) })
}

// readFrom reads entries after a place until enough returns true.
func (c Calls) readFrom(ctx context.Context, at journal.Head, enough func(*history, journal.Record) bool) error {
	h := &history{state: c.State}
	for rec, err := range c.From.RecordsFrom(ctx, c.State.Session, at) {
		switch {
		case err != nil:
			return err
		case rec.Err != nil:
			return fmt.Errorf("session %s, entry %d: %w", c.State.Session, rec.Seq, rec.Err)
		case rec.Seq > c.Head.Seq:
			return nil
		}
		for _, ev := range rec.Entry.Events {
			h.note(ev, rec.Entry.At)
		}
		if enough(h, rec) {
			return nil
		}
	}
	return nil
}

// history collects what entries say about calls.
type history struct {
	state *loop.State
	calls []*Call // in order
	turn  int     // the last turn that ended, or had a round that ended
	round int     // the last round that ended; math.MaxInt: the whole turn
}

// past reports whether a round has ended, or the turn if round is 0.
func (h *history) past(turn, round int) bool {
	return turn < h.turn || turn == h.turn && (h.round == math.MaxInt || 0 < round && round <= h.round)
}

// call returns a call, or adds an empty one. Events are mostly about the latest calls.
func (h *history) call(id content.CallID) *Call {
	for _, c := range slices.Backward(h.calls) {
		if c.Call == id {
			return c
		}
	}
	return &Call{}
}

// find returns the call that an ID refers to, with its state as a dead letter, or nil if there is none.
func (h *history) find(id content.CallID) *Call {
	for _, c := range slices.Backward(h.calls) {
		if c.Call == id || c.place == PlaceOf(id) {
			c.State = h.standing(c)
			return c
		}
	}
	return nil
}

// complete reports whether later entries add nothing about a call: it is in its current state, or nothing more
// can happen to it.
func (h *history) complete(c *Call) bool {
	open := 0
	for _, q := range c.Questions {
		if q.Outcome == Pending {
			open++
		}
	}
	now, ok := h.state.Call(c.Call)
	if !ok {
		return open == 0 && h.past(c.Turn.Number(), c.Round) && !c.awaited()
	}
	for _, a := range h.state.PendingApprovals() {
		if a.CallID == c.Call {
			open--
		}
	}
	last := events.Settlement("")
	if n := len(c.Settled); n > 0 {
		last = c.Settled[n-1].Outcome
	}
	return open == 0 && c.Attempts == now.Attempt && c.running == now.Dispatched && len(c.Lost) == now.Lost && len(c.Questions) == now.Questions &&
		c.late == now.Late && (c.late || c.Result == string(now.Status)) &&
		(last == events.DeadRetried || now.Letter != loop.LetterRetried) && (last == events.DeadDropped || now.Letter != loop.LetterDropped)
}

// awaited reports whether a call may get an outcome after its round.
func (c *Call) awaited() bool {
	switch {
	case c.Round == 0: // a verifier's
		return false
	case c.Result == string(content.StatusCancelled):
		return c.running && !c.late
	}
	return c.Result == "" || c.Result == string(content.StatusUnknown)
}

// PlaceOf returns the place that is in the ID of an approval.
func PlaceOf(id content.CallID) content.Place {
	place, _, _ := strings.Cut(string(id), "-g")
	return content.Place(place)
}

// note folds an event of the kinds that matter here. It takes any, since a switch over events.Event must list
// all kinds.
func (h *history) note(ev any, at content.Time) {
	switch ev := ev.(type) {
	case events.ToolCallRequested:
		c := &Call{
			Session: h.state.Session, Call: ev.Call.ID, Tool: ev.Call.Name, Effects: EffectsName(ev.Routing.Effects),
			Queue: ev.Routing.Queue, Turn: ev.Turn, Round: ev.Round, Input: valid(ev.Call.Input), Lost: []LostAttempt{}, Settled: []Settlement{},
			place: ev.Call.Place,
		}
		h.calls = append(h.calls, c)
	case events.ToolDispatched:
		c := h.call(ev.Call)
		c.Attempts, c.running = ev.Attempt, true
		c.patch(ev.Input)
	case events.ToolAttemptLost:
		c := h.call(ev.Call)
		c.Lost, c.running = append(c.Lost, LostAttempt{ev.Attempt, at, ev.Reason}), false
	case events.ToolResultReceived:
		c := h.call(ev.Result.CallID)
		c.Result, c.late = string(ev.Result.Status), c.late || ev.Late
		c.running = c.running && ev.Attempt != c.Attempts
	case events.RoundFinished:
		h.turn, h.round = ev.Turn.Number(), ev.Round
	case events.TurnFinished:
		h.turn, h.round = ev.Turn.Number(), math.MaxInt
	case events.DeadLetterSettled:
		c := h.call(ev.Call)
		c.Settled = append(c.Settled, Settlement{ev.Outcome, ev.By, ev.User, ev.Reason, at})
	case events.ApprovalRequired:
		a := ev.Approval
		if a.RequestKind == loop.KindVerifier { // no reply asks for it
			h.calls = append(h.calls, &Call{
				Session: h.state.Session, Call: a.CallID, Tool: a.Tool, Effects: EffectsName(content.Once), Turn: a.Turn, Input: a.Input,
				Lost: []LostAttempt{}, Settled: []Settlement{}, place: content.Place(a.CallID),
			})
		}
		c := h.call(a.CallID)
		c.Questions, c.running = append(c.Questions, &Question{Approval: ApprovalOf(a), Outcome: Pending}), false
	case events.ApprovalResolved:
		c := h.call(ev.Call)
		if c.patch(ev.Input); len(ev.Input) > 0 {
			c.changed = ev.Decider()
		}
		for _, q := range c.Questions {
			if q.ID == ev.Approval {
				q.Outcome, q.Decided = ev.Outcome, decided(ev, at)
			}
		}
	}
}

// valid returns arguments as valid JSON: unchanged, or else as a string. Models may write anything.
func valid(input json.RawMessage) json.RawMessage {
	if !json.Valid(input) {
		input, _ = json.Marshal(string(input)) // a string can always be encoded
	}
	return input
}

// patch replaces the input.
func (c *Call) patch(input json.RawMessage) {
	if len(input) == 0 {
		return
	}
	if c.Model == nil {
		c.Model = c.Input
	}
	c.Input = input
}

// Decision says how the last decided question was decided, or "".
func (c *Call) Decision() string {
	for _, q := range slices.Backward(c.Questions) {
		if q.Decided != "" {
			return q.Decided
		}
	}
	return ""
}

// decided says who decided what, and when.
func decided(ev events.ApprovalResolved, at content.Time) string {
	text := string(ev.Outcome)
	if ev.Outcome == events.Moot {
		text = "another question about the call was denied"
	}
	if by := ev.Decider(); by != "" {
		text += " by " + by
	}
	if ev.Reason != "" {
		text += ": " + ev.Reason
	}
	return text + ", " + at.String()
}

// standing returns the state of a call: that of a dead letter, of an open call, or over.
func (h *history) standing(p *Call) string {
	c, ok := h.state.Call(p.Call)
	last := len(p.Settled) - 1
	switch {
	case ok && c.Letter == loop.LetterDropped, !ok && last >= 0 && p.Settled[last].Outcome == events.DeadDropped:
		return string(loop.LetterDropped)
	case !ok || h.state.Closed:
		return stateOver
	case c.Letter != loop.NoLetter:
		return string(c.Letter)
	}
	return standing(h.state, *c)
}

// EffectsName returns, as users write it, what a tool declares about running twice.
func EffectsName(e content.Effects) string {
	if e == content.Once {
		return "once"
	}
	return string(e)
}
