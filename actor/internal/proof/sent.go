package proof

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// What is wrong with a command, besides the errors of package keys.
var (
	errUnsigned = errors.New("it is not signed, and signatures are required")
	errNotShown = errors.New("it answers another question, or was shown something else than is pending")
)

// Sent checks the signature of a command or a report that a session with this state was sent, before it is
// decided. It returns the envelope with the sender's name from the directory, or an error that says why the
// command must have no effect.
func (g *Guard) Sent(m jetstream.Message, s *loop.State) (commands.Envelope, error) {
	env := m.Envelope
	if g == nil {
		if !m.Signature.IsZero() {
			env.Signature = &m.Signature // for an audit
		}
		return env, nil
	}
	var err error
	switch m.Lane.Unnamed() { //nolint:exhaustive // the server sends the others
	case events.LaneAsk:
		err = g.said(&env, m, s, keys.Client)
	case events.LaneDecide:
		err = g.said(&env, m, s, keys.Approver)
	case events.LaneReport:
		err = g.result(env, m.At, s)
	}
	if err != nil {
		g.forged(commands.NameOf(env.Command))
	}
	return env, err
}

// said checks what a client or an approver says. A driver may say it for others: it passes on what a schedule
// sends, and cancels and denials.
func (g *Guard) said(env *commands.Envelope, m jetstream.Message, s *loop.State, role keys.Role) error {
	d := g.directory.Newest()
	if m.Signature.IsZero() {
		if d.Requires(role, m.At) {
			return fmt.Errorf("%w of the role %s", errUnsigned, role)
		}
		return nil
	}
	k, err := d.Check(m.Signature, statement.Of(d.Cell, *env), m.At, role, keys.Driver)
	if err != nil {
		return err
	}
	decision, decides := env.Command.(commands.ResolveApproval)
	if decides && k.Has(role) {
		a, ok := statement.Asked(s.PendingApprovals(), decision)
		if ok && (decision.Approval != a.ID || decision.Shown != statement.Shown(a)) {
			return errNotShown
		}
	}
	env.Signature = &m.Signature
	if k.Has(role) {
		env.By = k.Name
		env.Command = by(env.Command, k.Name)
	}
	return nil
}

// by puts the owner of a key in the place of the name that a decision claims.
func by(c commands.Command, name string) commands.Command {
	switch c := c.(type) { //nolint:gochecksumtype // the others have the name of their envelope
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

// result checks that a worker ran the call that the session dispatched, with its input. Other reports, and the
// verdicts of verifiers, are not signed.
func (g *Guard) result(env commands.Envelope, at content.Time, s *loop.State) error {
	r, ok := env.Command.(commands.ReportResult)
	if !ok {
		return nil
	}
	call, ok := s.CallAt(r.Place)
	if !ok || call.Name == loop.VerifierTool {
		return nil // it has no effect, or is a verdict
	}
	d := g.directory.Newest()
	if r.Signature == nil {
		if d.Requires(keys.Worker, at) {
			return fmt.Errorf("%w of the role %s", errUnsigned, keys.Worker)
		}
		return nil
	}
	of := statement.Call{Session: s.Session, Call: call.ID, Place: call.Place, Attempt: r.Attempt, Tool: call.Name, Input: tool.Digest(call.EffectiveInput())}
	_, err := d.Check(*r.Signature, statement.Result(d.Cell, of, statement.ResultDigest(r.Outcome.Result)), at, keys.Worker)
	return err
}
