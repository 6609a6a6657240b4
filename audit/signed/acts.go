package signed

import (
	"fmt"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/tool"
)

// acts checks what people and workers signed, from what the journal records of it.
type acts struct {
	keys    *keys.Directory
	every   bool // also the signatures of workers
	asked   map[content.ApprovalID]events.Approval
	calls   map[content.CallID]statement.Call
	queues  map[content.CallID]string
	signers []verdict.Signer
}

func newActs(d *keys.Directory, every bool) acts {
	return acts{
		keys: d, every: every, asked: map[content.ApprovalID]events.Approval{},
		calls: map[content.CallID]statement.Call{}, queues: map[content.CallID]string{},
	}
}

// add checks the acts that an entry records.
func (a *acts) add(r journal.Record) (faults []*FaultError) {
	e, opens := r.Entry, false
	check := func(what string, s *content.Signature, text func() []byte, verify bool, roles ...keys.Role) {
		if err := a.act(what, r, s, text, verify, roles); err != nil {
			faults = append(faults, &FaultError{r.Seq, r.Line, fmt.Errorf("signature of %s: %w", what, err)})
		}
	}
	for _, ev := range e.Events {
		switch ev := any(ev).(type) {
		case events.RunStarted:
			opens = true
		case events.InputQueued:
			if ev.Origin == events.FromHost || ev.Origin == events.FromTask {
				check("input", ev.Signature, func() []byte { return statement.Input(a.keys.Cell, e.Session, e.Cause, opens, ev) }, true, keys.Client, keys.Driver)
			}
		case events.ApprovalRequired:
			a.asked[ev.Approval.ID] = ev.Approval
		case events.ApprovalResolved:
			if ev.Grant == "" && (ev.Outcome == events.Approved || ev.Outcome == events.Denied) {
				asked := a.asked[ev.Approval]
				check("decisions", ev.Signature, func() []byte { return statement.Resolved(a.keys.Cell, e.Session, e.Cause, asked, ev) }, true, keys.Approver, keys.Driver)
			}
		case events.ToolCallRequested:
			a.calls[ev.Call.ID] = statement.Call{Session: e.Session, Call: ev.Call.ID, Place: ev.Call.Place, Tool: ev.Call.Name, Input: tool.Digest(ev.Call.Input)}
		case events.ToolDispatched:
			c := a.calls[ev.Call]
			if len(ev.Input) > 0 {
				c.Input = tool.Digest(ev.Input)
			}
			a.calls[ev.Call], a.queues[ev.Call] = c, ev.Queue
		case events.ToolResultReceived:
			c, ran := a.calls[ev.Result.CallID]
			if c.Attempt = ev.Attempt; ran && a.queues[ev.Result.CallID] != "" && (ev.Signature != nil || ev.Attempt > 0) {
				check("results", ev.Signature, func() []byte { return statement.Result(a.keys.Cell, c, statement.ResultDigest(ev.Result)) }, a.every, keys.Worker)
			}
		}
	}
	return faults
}

// act counts who signed an act, and checks the signature if verify is set.
func (a *acts) act(what string, r journal.Record, s *content.Signature, text func() []byte, verify bool, roles []keys.Role) error {
	if s == nil {
		a.signers = count(a.signers, verdict.Signer{What: what, Count: 1})
		if a.keys.Requires(roles[0], at(r)) {
			return ErrUnsigned
		}
		return nil
	}
	k, known := a.keys.Lookup(s.Key)
	a.signers = count(a.signers, verdict.Signer{What: what, Name: k.Name, Key: s.Key, Count: 1})
	if !verify && known {
		return nil
	}
	_, err := a.keys.Check(*s, text(), at(r), roles...)
	return err
}
