package webhooks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	store "github.com/turnlog/turnlog/jetstream/webhooks"
)

// Type says what a message is about.
type Type string

// The types of messages.
const (
	ApprovalNeeded Type = "approval.needed"   // a call waits for a person's decision
	TurnFinished   Type = "turn.finished"     // a turn ended, for any reason
	SessionFailed  Type = "session.failed"    // a turn ended because of an error; a turn.finished follows
	DeadLetter     Type = "dead_letter.added" // the workers of a call were lost, so its outcome is unknown
)

// Types returns all types.
func Types() []Type { return []Type{ApprovalNeeded, TurnFinished, SessionFailed, DeadLetter} }

// Payload is the body of a message.
type Payload struct {
	Type      Type         `json:"type"`
	Timestamp content.Time `json:"timestamp"` // when the journal recorded it
	Data      Data         `json:"data"`
}

// Data says what happened and where. Only one of its last four fields is set, by type.
type Data struct {
	Deployment string            `json:"deployment"`
	Session    content.SessionID `json:"session"`
	Seq        uint64            `json:"seq"`              // of the entry, in the session's journal
	Agent      string            `json:"agent,omitempty"`  // the agent that the session started with
	Parent     content.SessionID `json:"parent,omitempty"` // the session that it works for
	Turn       content.TurnID    `json:"turn,omitempty"`
	Sealed     bool              `json:"sealed,omitempty"` // if set, nothing more is known: the sender does not have the session's key

	Approval *Approval `json:"approval,omitempty"`
	Finished *Finished `json:"finished,omitempty"`
	Failed   *Failure  `json:"failed,omitempty"`
	Call     *Call     `json:"call,omitempty"`
}

// Approval is the question of ApprovalNeeded. A decision includes Digest to show that it is about the same
// arguments.
type Approval struct {
	ID        content.ApprovalID     `json:"id"`
	Call      content.CallID         `json:"call"`
	Tool      string                 `json:"tool"`
	Reason    content.ApprovalReason `json:"reason"`
	Digest    string                 `json:"digest,omitempty"`
	ExpiresAt content.Time           `json:"expires_at,omitzero"`

	Summary string          `json:"summary,omitempty"` // only with details, and if not too long
	Input   json.RawMessage `json:"input,omitempty"`   // likewise
}

// Finished is the end of a turn.
type Finished struct {
	Reason content.FinishReason `json:"reason"`
	Rounds int                  `json:"rounds"`
}

// Failure is the error that ended a turn.
type Failure struct {
	Code    string             `json:"code"`
	Class   content.ErrorClass `json:"class,omitempty"`
	Message string             `json:"message,omitempty"` // only with details, and if not too long
}

// Call is the call of a dead letter.
type Call struct {
	Call     content.CallID `json:"call"`
	Tool     string         `json:"tool"`
	Attempts int            `json:"attempts"`

	Input json.RawMessage `json:"input,omitempty"` // only with details, and if not too long
}

// maxDetail is the longest input or text in a message, in bytes. Receivers expect small messages.
const maxDetail = 16 << 10

// event is an event that a message reports.
type event struct {
	index int // of the event in its entry
	Payload
}

// source finds events in a cell's journals for one endpoint. The goroutine of the endpoint owns it.
type source struct {
	cell    *jetstream.Cell
	details bool
	about   map[content.SessionID]subject
}

// subject is what filters and messages need to know about a session.
type subject struct {
	agent  string
	parent content.SessionID
}

func (c *deliverer) newSource() *source {
	return &source{cell: c.cell, details: c.Details, about: make(map[content.SessionID]subject)}
}

// maxKnown is how many sessions' subjects are remembered.
const maxKnown = 1 << 12

// events returns the events of an entry.
func (s *source) events(ctx context.Context, rec journal.Record) (out []event, err error) {
	switch _, closed := errors.AsType[*events.SealedError](rec.Err); {
	case closed:
		return s.sealed(rec.Entry), nil
	case errors.Is(rec.Err, journal.ErrDamaged):
		return nil, rec.Err
	}
	var settled []content.ApprovalID
	for _, ev := range rec.Entry.Events {
		if r, ok := ev.(events.ApprovalResolved); ok {
			settled = append(settled, r.Approval)
		}
	}
	for i, ev := range rec.Entry.Events {
		p := s.at(rec.Entry)
		switch ev := ev.(type) { //nolint:gochecksumtype // other events cause no messages
		case events.ApprovalRequired:
			if a := ev.Approval; !slices.Contains(settled, a.ID) {
				p.Type, p.Data.Turn = ApprovalNeeded, a.Turn
				p.Data.Approval = &Approval{a.ID, a.CallID, a.Tool, a.Reason, a.Digest, a.ExpiresAt, "", s.input(a.Input)}
				if a.Summary != events.CallSummary(a.Tool, a.Input) { // otherwise it only repeats these two
					p.Data.Approval.Summary = s.text(a.Summary)
				}
			}
		case events.TurnFinished:
			p.Type, p.Data.Turn, p.Data.Finished = TurnFinished, ev.Turn, &Finished{ev.FinishReason, ev.Rounds}
		case events.RunFailed:
			p.Type, p.Data.Turn, p.Data.Failed = SessionFailed, ev.Turn, &Failure{ev.Code, ev.Class, s.text(ev.Message)}
		case events.ToolAttemptLost:
			if err := s.deadLetter(ctx, rec, ev.Call, &p); err != nil {
				return nil, err
			}
		}
		if p.Type != "" {
			out = append(out, event{i, p})
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	about, err := s.subjectOf(ctx, rec.Entry.Session)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Data.Agent, out[i].Data.Parent = about.agent, about.parent
	}
	return out, nil
}

// at returns a payload about an entry.
func (s *source) at(e events.Entry) Payload {
	return Payload{Timestamp: e.At, Data: Data{Deployment: s.cell.Namespace(), Session: e.Session, Seq: e.Seq}}
}

// input returns the part of a call's input that a message includes.
func (s *source) input(in json.RawMessage) json.RawMessage {
	if !s.details || len(in) > maxDetail {
		return nil
	}
	return in
}

// text is input for a text.
func (s *source) text(in string) string { return string(s.input([]byte(in))) }

// sealed returns the events of an entry that is sealed with a key that this process does not have. Only their
// kinds are known.
func (s *source) sealed(e events.Entry) (out []event) {
	types := map[events.Kind]Type{
		events.KindApprovalRequired: ApprovalNeeded, events.KindTurnFinished: TurnFinished, events.KindRunFailed: SessionFailed,
	}
	for i, kind := range e.Sealing.Kinds {
		p := s.at(e)
		if p.Type, p.Data.Sealed = types[kind], true; p.Type != "" {
			out = append(out, event{i, p})
		}
	}
	return out
}

// deadLetter completes a payload if a call is a dead letter after an entry. Only the whole journal shows
// that.
func (s *source) deadLetter(ctx context.Context, rec journal.Record, id content.CallID, p *Payload) error {
	state, err := audit.Replay(rec.Entry.Session, s.upTo(ctx, rec))
	if err != nil {
		return fmt.Errorf("dead letters of %s: %w", rec.Entry.Session, err)
	}
	for _, c := range state.DeadLetters() {
		if c.ID == id {
			p.Type, p.Data.Turn, p.Data.Call = DeadLetter, c.Turn, &Call{c.ID, c.Name, c.Attempt, s.input(c.EffectiveInput())}
		}
	}
	return nil
}

// upTo yields the entries of a session through last.
func (s *source) upTo(ctx context.Context, last journal.Record) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for rec, err := range s.cell.Journal().Read(ctx, last.Entry.Session, 0) {
			if !yield(rec, err) || err != nil || rec.Seq >= last.Seq {
				return
			}
		}
	}
}

// subjectOf returns what a session's journal says about it at its opening, or nothing if it was deleted.
func (s *source) subjectOf(ctx context.Context, id content.SessionID) (subject, error) {
	if known, ok := s.about[id]; ok {
		return known, nil
	}
	var out subject
	for rec, err := range s.cell.Journal().Read(ctx, id, 0) {
		if err != nil {
			return out, err
		}
		i := slices.IndexFunc(rec.Entry.Events, func(ev events.Event) bool { return events.KindOf(ev) == events.KindRunStarted })
		if i < 0 {
			continue
		}
		if start, ok := rec.Entry.Events[i].(events.RunStarted); ok {
			out.parent = start.Parent
			if start.Config.Agent != nil {
				out.agent = start.Config.Agent.Name
			}
		}
		break
	}
	if len(s.about) >= maxKnown {
		clear(s.about)
	}
	s.about[id] = out
	return out, nil
}

// errGone is returned by body for an event whose session was deleted.
var errGone = errors.New("the event is no longer in the journal")

// body returns the body of a message.
func (s *source) body(ctx context.Context, m store.Message) ([]byte, error) {
	rec, err := s.cell.Journal().From(ctx, m.Session, m.Position)
	switch {
	case errors.Is(err, journal.ErrNotFound), err == nil && rec.Guard != m.Position:
		return nil, errGone
	case err != nil:
		return nil, err
	}
	all, err := s.events(ctx, rec)
	if err != nil {
		return nil, err
	}
	for _, ev := range all {
		if ev.index == m.Event {
			return ev.encode()
		}
	}
	return nil, errGone
}

// encode returns the body of a message.
func (p Payload) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// wants reports whether an endpoint gets an event.
func (e Endpoint) wants(p Payload) bool {
	matches := func(patterns []string, name string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool { return content.Matches(pattern, name) })
	}
	return (len(e.Types) == 0 || slices.Contains(e.Types, p.Type)) && matches(e.Agents, p.Data.Agent) && matches(e.Sessions, string(p.Data.Session))
}

// idOf returns the permanent ID of a message about an event, by which a receiver recognizes duplicates. The
// hash covers the session.
func idOf(rec journal.Record, index int) string {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(rec.Hash[:], uint64(index))) //nolint:gosec // an index is positive
	return "msg_" + hex.EncodeToString(sum[:16])
}
