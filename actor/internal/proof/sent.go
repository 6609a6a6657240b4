package proof

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// What is wrong with a command, besides the errors of package keys.
var (
	errUnsigned = errors.New("the signature is missing")
	errNotShown = errors.New("the decision is for another approval, or its sender was shown other content than the pending approval has")
	errAge      = errors.New("it was signed too long before or after it arrived: correct the sender's clock and send it again")
	errUser     = errors.New("the NATS user and the owner of the key differ: add the key under the user's name")
	errNoParent = errors.New("drivers send commands only to sub-agents")
	errOther    = errors.New("the schedule does not contain this command")
)

// Sent checks the signature of a command or a report before the session with this state decides it. It
// returns the envelope, with the sender's name from the directory and what the sender signed, or an error
// that says why the command must have no effect.
func (g *Guard) Sent(m jetstream.Message, s *loop.State) (commands.Envelope, error) {
	env := m.Envelope
	if g == nil || m.Lane == events.LaneDue { // the server sends these
		return env, nil
	}
	var err error
	if r, ok := env.Command.(commands.ReportResult); ok && !isVerdict(r, s) {
		err = g.result(r, m.At, s)
	} else {
		err = g.checkSender(&env, m, s)
	}
	if err != nil {
		g.forged(commands.NameOf(env.Command))
	}
	return env, err
}

// checkSender checks that the sender may send the command. One list defines who may send what.
func (g *Guard) checkSender(env *commands.Envelope, m jetstream.Message, s *loop.State) error {
	d, roles := g.directory.Newest(), statement.Roles(env.Command)
	if m.Signature.IsZero() {
		if d.Requires(roles[0], m.At) {
			return fmt.Errorf("%w: the role %s must sign", errUnsigned, roles[0])
		}
		return nil
	}
	text, err := g.text(env, m, s)
	if err != nil {
		return err
	}
	k, err := d.Check(m.Signature, text, max(m.At, env.At), roles...)
	switch {
	case err != nil:
		return err
	case !k.Has(roles[0]): // signed by a driver, for a call of the parent
		if s.Parent == "" {
			return errNoParent
		}
		env.By, env.User = string(s.Parent), ""
	case m.User != "" && m.User != k.Name:
		return fmt.Errorf("%w: %s and %s", errUser, m.User, k.Name)
	default:
		if decision, ok := env.Command.(commands.ResolveApproval); ok {
			a, found := statement.Asked(s.PendingApprovals(), decision)
			if found && (decision.Approval != a.ID || decision.Shown != statement.Shown(a)) {
				return errNotShown
			}
		}
		env.By = k.Name
	}
	env.Command = by(env.Command, env.By)
	return nil
}

// text stores and returns the text that the sender signed: the command itself, or the schedule that sent it.
func (g *Guard) text(env *commands.Envelope, m jetstream.Message, s *loop.State) ([]byte, error) {
	cell := g.directory.Newest().Cell
	outline, input := statement.Outline(env.Command)
	raw, err := commands.Marshal(outline)
	if err != nil {
		return nil, err
	}
	env.Signed = &events.CommandSigned{Command: commands.NameOf(env.Command), Said: raw, At: env.At, Signature: m.Signature, Schedule: m.Schedule}
	if m.Schedule == nil {
		if age := m.At.Sub(env.At); age.Abs() > commands.SignedWindow || env.At <= s.Signed.Before {
			return nil, fmt.Errorf("%w: %v", errAge, age)
		}
		return statement.Recorded(cell, env.Session, env.ID, *env.Signed, input), nil
	}
	sent, due, err := schedule.Sent(m.Schedule, env.Session, env.ID)
	if err != nil {
		return nil, err
	}
	if same, err := equal(sent, env.Command); err != nil || !same || due.After(m.At.Std().Add(time.Minute)) {
		return nil, errors.Join(errOther, err)
	}
	env.Signed.At = content.TimeOf(due)
	return statement.Schedule(cell, m.Schedule), nil
}

func equal(a, b commands.Command) (bool, error) {
	one, err := commands.Marshal(a)
	two, err2 := commands.Marshal(b)
	return bytes.Equal(one, two), errors.Join(err, err2)
}

// by replaces the name that a decision claims with the owner of the key.
func by(c commands.Command, name string) commands.Command {
	switch c := c.(type) { //nolint:gochecksumtype // other commands have the name of their envelope
	case commands.ResolveApproval:
		c.By = name
		return c
	case commands.AllowTools:
		c.By = name
		return c
	case commands.SettleDeadLetter:
		c.By = name
		return c
	}
	return c
}

// isVerdict reports whether a result is that of a verifier. A verdict is signed as a command, since the
// journal has no call for it.
func isVerdict(r commands.ReportResult, s *loop.State) bool {
	return s.Task != nil && s.Turn != nil && r.Place == content.VerifierPlace(s.Turn.N, s.Task.Attempts)
}

// result checks that a worker ran the call that the session dispatched, with its input.
func (g *Guard) result(r commands.ReportResult, at content.Time, s *loop.State) error {
	call, ok := s.CallAt(r.Place)
	if !ok {
		return nil // it has no effect
	}
	d := g.directory.Newest()
	if r.Signature == nil {
		if d.Requires(keys.Worker, at) {
			return fmt.Errorf("%w: the role %s must sign", errUnsigned, keys.Worker)
		}
		return nil
	}
	of := statement.Call{Session: s.Session, Call: call.ID, Place: call.Place, Attempt: r.Attempt, Tool: call.Name, Input: tool.Digest(call.EffectiveInput())}
	_, err := d.Check(*r.Signature, statement.Result(d.Cell, of, r.SignedAt, statement.ResultDigest(r.Outcome.Result)), max(at, r.SignedAt), keys.Worker)
	return err
}
