package commands

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/wire"
)

// Envelope carries one command to one session.
type Envelope struct {
	ID          string // a command with the id of an earlier one has no effect
	Session     content.SessionID
	By          string       // the sender's name, not verified
	At          content.Time // when the sender signed it; then set by the driver when it handles the command
	TraceParent string
	Command     Command

	// The host attaches the following fields. They are not encoded.

	Signed *events.CommandSigned // what the sender signed, checked by the host; nil: nothing

	User     string                // the sender, which the NATS server verified; "": none
	Baggage  string                // the sender's W3C baggage, not checked; "": none
	Catalog  *events.Catalog       // the catalog of the host's tool sources, if it differs from the session's
	Checks   []Check               // checks of the patched call of a ResolveApproval with input
	Policy   *events.Policy        // the host's policy for this session; nil: the host has none
	Hooks    []HookAnswer          // answers of the session-start hooks for OpenSession, of the session-end hooks for Close
	Routing  []content.Routing     // routing of the calls of an OpenSession that resumes a round
	Snapshot *events.SnapshotTaken // snapshot of the state on which the command is decided; nil: none is due
	Also     []ReportResult        // results of other running calls, decided after Command for the same entry
}

// String returns the name and the ID of the command. Logs may show nothing else: the content may be sealed.
func (e Envelope) String() string { return NameOf(e.Command) + " " + e.ID }

// Command is an ask or a report. It is sealed: only the structs of this package are
// commands.
//
//sumtype:decl
type Command interface {
	command() kind
}

// ErrBadCommand is returned by Decode for bytes that are not a command of this
// release. Count the command and skip it.
var ErrBadCommand = errors.New("bad command")

const envelopeFields = 7

// Encode returns e in its wire format.
func (e Envelope) Encode() ([]byte, error) {
	b, err := wire.Encode(wire.Command, func(w *wire.Writer) error {
		w.Array(envelopeFields)
		w.Text(e.ID)
		w.Text(string(e.Session))
		w.Text(e.By)
		w.Int(int64(e.At))
		w.Text(e.TraceParent)
		w.Text(NameOf(e.Command))
		return w.Value(e.Command)
	})
	if err != nil {
		return nil, fmt.Errorf("encode command %s for %s: %w", e.ID, e.Session, err)
	}
	return b, nil
}

// Decode decodes the result of Encode. It returns ErrBadCommand for anything else.
func Decode(b []byte) (Envelope, error) {
	return decode(b, func(content.SessionID, Command) error { return nil })
}

// DecodeOn decodes a command that came on a session's lane. For a command of another session or lane
// it returns ErrBadCommand without decoding more than the head of the envelope.
func DecodeOn(s content.SessionID, l events.Lane, b []byte) (Envelope, error) {
	return decode(b, func(session content.SessionID, zero Command) error {
		switch {
		case session != s:
			return fmt.Errorf("the envelope is for session %q, not %q", session, s)
		case zero != nil && LaneOf(zero) != l:
			return fmt.Errorf("%s arrived on lane %q", NameOf(zero), l)
		}
		return nil
	})
}

func decode(b []byte, belongs func(content.SessionID, Command) error) (e Envelope, err error) {
	err = wire.Decode(b, wire.Command, func(r *wire.Reader) error { return e.decode(r, belongs) })
	if err != nil {
		return e, fmt.Errorf("%w: %w", ErrBadCommand, err)
	}
	return e, nil
}

// decode fills in as many fields as it can. It calls belongs before it decodes the command, with the
// zero command of its kind, or nil for an unknown one.
func (e *Envelope) decode(r *wire.Reader, belongs func(content.SessionID, Command) error) error {
	var name string
	if n, err := r.Array(); err != nil || n != envelopeFields {
		return errors.New("not an envelope")
	}
	if err := r.Values(&e.ID, &e.Session, &e.By, &e.At, &e.TraceParent, &name); err != nil {
		return err
	}
	if e.ID == "" || len(e.ID) > maxIDLen {
		return fmt.Errorf("id of %d bytes, want 1 to %d", len(e.ID), maxIDLen)
	}
	zero := Named(name)
	if err := belongs(e.Session, zero); err != nil {
		return fmt.Errorf("%s: %w", e.ID, err)
	}
	c, err := decodeCommand(zero, r)
	if err != nil {
		return fmt.Errorf("command %q: %w", name, err)
	}
	e.Command = c
	return nil
}

const maxIDLen = 256

// Marshal returns a command without an envelope in its wire format.
func Marshal(c Command) ([]byte, error) {
	b, err := wire.Marshal(c, wire.Command)
	if err != nil {
		return nil, fmt.Errorf("encode command %s: %w", NameOf(c), err)
	}
	return b, nil
}

// Unmarshal decodes the result of Marshal for the command with a name. It returns ErrBadCommand for anything else.
func Unmarshal(name string, b []byte) (c Command, err error) {
	err = wire.Decode(b, wire.Command, func(r *wire.Reader) error {
		c, err = decodeCommand(Named(name), r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrBadCommand, content.Clip(name, 80), err)
	}
	return c, nil
}
