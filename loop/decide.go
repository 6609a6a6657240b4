package loop

import (
	"errors"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// ErrWrongSession is returned by Decide for another session's envelope: a bug in the host.
var ErrWrongSession = errors.New("envelope for another session")

// Decide returns the events that follow from a command. It changes nothing: the events become facts when their
// entry is appended and folded. It may refuse an ask with a *commands.Rejection. It returns no events and no error
// for a command that was handled before or came too late.
func Decide(s *State, env commands.Envelope) ([]events.Event, error) {
	evs, _, err := DecideAhead(s, env)
	return evs, err
}

// DecideAhead is Decide for the owner of s. Once the entry with the events is written, fold sets s to the decided
// state, which saves applying the events a second time.
func DecideAhead(s *State, env commands.Envelope) (evs []events.Event, fold func(events.Entry), err error) {
	switch {
	case env.Session != s.Session:
		return nil, nil, fmt.Errorf("%w: %s, want %s", ErrWrongSession, env.Session, s.Session)
	case s.Handled(env.ID), s.Signed.Repeats(env), s.Deleted != nil && !commands.IsAsk(env.Command):
		return nil, nil, nil
	case s.Deleted != nil:
		return nil, nil, commands.Refuse(commands.ReasonDeleted, "session %s %s", s.Session, s.Deleted)
	}
	d := &decision{State: s.Fork(), env: env, events: make([]events.Event, 0, 8)}
	d.begin(s.Seq+1, env.ID, max(env.At, s.At))
	if err := d.take(env.Command); err != nil {
		return nil, nil, err
	}
	for _, r := range env.Also {
		d.advance()
		d.result(r)
	}
	if len(d.events) > 0 || d.pass {
		d.advance()
	}
	if len(d.events) > 0 {
		d.confirm()
	}
	return d.events, func(e events.Entry) {
		d.follow(e)
		*s = d.State
	}, nil
}

// confirm records what the sender signed, and the digest of the state before the entry.
func (d *decision) confirm() {
	if d.env.Snapshot != nil {
		at := 1 + slices.Index(events.Entry{Events: d.events[:1]}.Kinds(), events.KindDriverClaimed) // a claim stays the first event
		d.events = slices.Insert(d.events, at, events.Event(*d.env.Snapshot))
	}
	if d.env.Signed != nil {
		d.apply(*d.env.Signed)
		d.events = slices.Insert(d.events, 0, events.Event(*d.env.Signed))
	}
}

// decision is a fork that folds each event it emits, so later rules see earlier events.
type decision struct {
	State
	env    commands.Envelope
	events []events.Event

	pass    bool   // Continue lets the session pass one wait
	stage   string // what a cancel interrupted
	checks  []commands.Check
	answers []commands.HookAnswer // each is used once
}

func (d *decision) emit(evs ...events.Event) {
	for _, ev := range evs {
		d.apply(ev)
		d.events = append(d.events, ev)
	}
}

// take dispatches the command to the function that handles it.
func (d *decision) take(c commands.Command) error {
	if err := d.admit(c); err != nil {
		return err
	}
	if _, claims := c.(commands.Claim); !claims { // a claim must be the first event of its entry
		d.recordPolicy()
	}
	switch c := c.(type) {
	case commands.Claim:
		d.claim(c)
	case commands.OpenSession:
		return d.open(c)
	case commands.SubmitInput:
		return d.submit(c)
	case commands.Continue:
		d.passWait(c)
	case commands.ResolveApproval:
		return d.resolve(c)
	case commands.AllowTools:
		return d.allow(c)
	case commands.SettleDeadLetter:
		return d.settleDead(c)
	case commands.Cancel:
		return d.cancel(c)
	case commands.DetachCall:
		return d.detach(c)
	case commands.SetNextTurnCache:
		d.emit(events.CacheOverrideSet{Cache: c.Cache})
	case commands.SwitchModel:
		d.switchModel(c)
	case commands.StartTask:
		return d.startTask(c)
	case commands.Close:
		return d.closeSession(c)
	case commands.Park:
		return d.park(c)
	case commands.ReportReply:
		d.reply(c)
	case commands.ReportModelFailed:
		d.modelFailed(c)
	case commands.ReportModelStopped:
		d.modelStopped(c)
	case commands.ReportResult:
		d.result(c)
	case commands.ReportAttemptLost:
		d.attemptLost(c)
	case commands.ReportOvertaken: // for the session's driver
	case commands.ReportPreflight:
		d.preflight(c)
	case commands.ReportQuestion:
		d.lateQuestion(c)
	case commands.ReportHooks:
		d.hooks(c)
	case commands.ReportMutation:
		d.mutation(c)
	case commands.ReportRecall:
		d.recall(c)
	case commands.ReportVerify:
		d.verified(c)
	case commands.ReportMemory:
		d.remembered(c)
	case commands.ReportTimer:
		d.timer(c)
	}
	return nil
}

// admit refuses asks that have no meaning, or come before a session opens or after it closes.
func (d *decision) admit(c commands.Command) error {
	switch any(c).(type) {
	case commands.Claim, commands.OpenSession, commands.Park:
		return nil
	}
	switch {
	case !commands.IsAsk(c):
		return nil
	case !d.Opened:
		return commands.Refuse(commands.ReasonNoSession, "session %s is not open", d.Session)
	case d.Closed:
		return commands.Refuse(commands.ReasonClosed, "session %s is closed", d.Session)
	}
	return commands.Validate(c)
}

func (d *decision) warn(code, message string, call content.CallID) {
	d.emit(events.Warning{Code: code, Message: message, Call: call})
}
