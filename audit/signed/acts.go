package signed

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// What is wrong with acts, besides the errors of package keys.
var (
	ErrOtherAct  = errors.New("the sender signed different content than the journal records")
	ErrOtherName = errors.New("the journal names a different person than the owner of the key")
	ErrTwice     = errors.New("the same signed command has an earlier entry")
	ErrNoChild   = errors.New("a driver's key may sign only for the parent of a session")
	ErrPlace     = errors.New("a signature is not the first event of its entry")
	ErrFuture    = errors.New("it was signed after the entry")
)

// acts checks what people and workers signed against what the journal records.
//
// An act is judged by its event, whatever the journal states about signatures. Each event that only a sender can cause
// needs a matching command that its sender signed. Without one, it is unsigned.
type acts struct {
	keys     *keys.Directory
	places   *places
	every    bool // also the signatures of workers
	parent   content.SessionID
	gate     bool // a function of a client verifies the task
	recorded map[string]uint64
	asked    map[content.ApprovalID]events.Approval
	remote   map[content.CallID]bool           // calls that are not done and were last dispatched to a queue of workers
	calls    map[content.CallID]statement.Call // calls that are not done, as last dispatched; only with every
	signers  tally
}

func newActs(d *keys.Directory, p *places, every bool) acts {
	return acts{
		keys: d, places: p, every: every, recorded: map[string]uint64{}, asked: map[content.ApprovalID]events.Approval{},
		remote: map[content.CallID]bool{}, calls: map[content.CallID]statement.Call{},
	}
}

// signedCommand is the command that caused an entry, as its sender signed it.
type signedCommand struct {
	commands.Command

	key  keys.Key
	name string // in whose name it acts
}

// add checks the acts that an entry records.
func (a *acts) add(r *journal.Record) (faults []*FaultError) {
	fault := func(what string, err error) {
		faults = append(faults, &FaultError{r.Seq, r.Line, fmt.Errorf("signature of %s: %w", what, err)})
	}
	var by *signedCommand
	wrong := false      // the command has a fault; report only one
	var caused []string // by the command
	for i, ev := range r.Entry.Events {
		a.note(r.Entry.Session, ev)
		switch ev := any(ev).(type) {
		case events.CommandSigned:
			var err error
			if by, err = a.command(r, ev); i > 0 {
				err = ErrPlace
			}
			if wrong = err != nil; wrong {
				fault(a.nameOf(r.Entry), err)
			}
		case events.ToolResultReceived:
			if err := a.result(r, ev); err != nil {
				fault("results", err)
			}
		}
		if act := a.actOf(ev); act.what != "" && !wrong {
			err := a.act(r, act, by)
			if err == nil && by != nil && slices.Contains(caused, act.what) {
				err = fmt.Errorf("%w: it occurs twice", ErrOtherAct)
			}
			if err != nil {
				fault(act.what, err)
			}
			caused = append(caused, act.what)
		}
	}
	return faults
}

// nameOf returns the name of an entry's acts.
func (a *acts) nameOf(e events.Entry) string {
	for _, ev := range e.Events {
		if act := a.actOf(ev); act.what != "" {
			return act.what
		}
	}
	return "a command"
}

// note remembers what later events refer to.
func (a *acts) note(s content.SessionID, ev any) {
	switch ev := ev.(type) {
	case events.RunStarted:
		a.parent = ev.Parent
	case events.TaskStarted:
		a.gate = ev.Spec.VerifierFunc
	case events.ApprovalRequired:
		a.asked[ev.Approval.ID] = ev.Approval
	case events.ToolCallRequested:
		if a.every {
			a.calls[ev.Call.ID] = statement.Call{
				Session: s, Call: ev.Call.ID, Place: ev.Call.Place, Tool: ev.Call.Name, Input: tool.Digest(ev.Call.Input),
			}
		}
	case events.ToolDispatched:
		if c := a.calls[ev.Call]; a.every && len(ev.Input) > 0 {
			c.Input = tool.Digest(ev.Input)
			a.calls[ev.Call] = c
		}
		if delete(a.remote, ev.Call); ev.Queue != "" && ev.Queue != task.LocalQueue {
			a.remote[ev.Call] = true
		}
	}
}

// command checks what the sender of an entry's cause signed.
func (a *acts) command(r *journal.Record, ev events.CommandSigned) (*signedCommand, error) {
	e := r.Entry
	c, err := commands.Unmarshal(ev.Command, ev.Said)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOtherAct, err)
	}
	if before, twice := a.recorded[e.Cause]; twice {
		return nil, fmt.Errorf("%w: %s is that of entry %d", ErrTwice, e.Cause, before)
	}
	a.recorded[e.Cause] = r.Seq
	text, err := a.text(e, ev)
	if err != nil {
		return nil, err
	}
	if ev.At > At(*r).Add(commands.SignedWindow) {
		return nil, fmt.Errorf("%w: at %s", ErrFuture, ev.At)
	}
	roles := statement.Roles(c)
	k, err := a.check(r, ev.Signature, text, ev.At, roles...)
	if err != nil {
		return nil, err
	}
	by := &signedCommand{Command: c, key: k, name: k.Name}
	if !k.Has(roles[0]) { // a driver's
		if by.name = string(a.parent); a.parent == "" {
			return nil, ErrNoChild
		}
	}
	return by, nil
}

// check checks a signature that was made at a time and that an entry records. A thief can backdate a signature, so a signature
// by a stolen key counts only if an entry recorded it before the theft.
func (a *acts) check(r *journal.Record, s content.Signature, text []byte, signed content.Time, roles ...keys.Role) (keys.Key, error) {
	k, err := a.keys.Check(s, text, signed, roles...)
	if err == nil && k.Revoked != nil && k.Revoked.Stolen && At(*r) >= k.Revoked.At {
		err = fmt.Errorf("key %s of %s: %w: it was stolen at %s, and this was recorded at %s", s.Key, k.Name, keys.ErrRevoked, k.Revoked.At, At(*r))
	}
	return k, a.places.check(entryOf(r), k, err)
}

// text returns what the sender of an entry's cause signed: the command, or the schedule that sent it.
func (a *acts) text(e events.Entry, ev events.CommandSigned) ([]byte, error) {
	var input []content.Item
	for _, ev := range e.Events {
		if in, ok := ev.(events.InputQueued); ok && fromSender(in.Origin) {
			input = in.Items
			break
		}
	}
	if ev.Schedule == nil {
		return statement.Recorded(a.keys.Cell, e.Session, e.Cause, ev, input), nil
	}
	sent, due, err := schedule.Sent(ev.Schedule, e.Session, e.Cause)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOtherAct, err)
	}
	outline, asked := statement.Outline(sent)
	raw, err := commands.Marshal(outline)
	if err != nil || commands.NameOf(sent) != ev.Command || !bytes.Equal(raw, ev.Said) || content.TimeOf(due) != ev.At || statement.Items(asked) != statement.Items(input) {
		return nil, ErrOtherAct
	}
	return statement.Schedule(a.keys.Cell, ev.Schedule), nil
}

// act counts who signed an act. It returns an error if someone else signed it, or if a required signature is missing.
func (a *acts) act(r *journal.Record, act act, by *signedCommand) error {
	if by == nil {
		a.signers.count(act.what, "", "")
		if !act.driver && a.keys.Requires(act.role, At(*r)) {
			return ErrUnsigned
		}
		return nil
	}
	a.signers.count(act.what, by.key.Name, by.key.ID())
	switch {
	case !act.agrees(by.Command):
		return ErrOtherAct
	case act.by != by.name && act.named, act.user != "" && act.user != by.name:
		return fmt.Errorf("%w: %q is not %s", ErrOtherName, content.Sender(act.user, act.by), by.name)
	}
	return nil
}

// result checks who signed the result of a call. Only a worker can report what a call on its queue returned. The driver
// may report that a call was cancelled, lost or refused.
func (a *acts) result(r *journal.Record, ev events.ToolResultReceived) error {
	if !a.remote[ev.Result.CallID] {
		return nil // it is signed with the entry
	}
	c := a.calls[ev.Result.CallID]
	if ev.Result.Status == content.StatusOK { // no other result may follow, which audits of the calls check
		delete(a.remote, ev.Result.CallID)
		delete(a.calls, ev.Result.CallID)
	}
	if ev.Signature == nil {
		a.signers.count("results", "", "")
		if ev.Result.Status == content.StatusOK && a.keys.Requires(keys.Worker, At(*r)) {
			return ErrUnsigned
		}
		return nil
	}
	k, known := a.keys.Lookup(ev.Signature.Key)
	what := "results"
	if !a.every && known {
		what = "results, not checked"
	}
	a.signers.count(what, k.Name, ev.Signature.Key)
	if !a.every && known {
		return nil
	}
	c.Attempt = ev.Attempt
	_, err := a.check(r, *ev.Signature, statement.Result(a.keys.Cell, c, ev.SignedAt, statement.ResultDigest(ev.Result)), ev.SignedAt, keys.Worker)
	return err
}
