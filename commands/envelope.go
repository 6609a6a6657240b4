package commands

import (
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/wire"
)

// Envelope carries one command to one session.
type Envelope struct {
	ID          string // names the command for all time; a repeated one decides to nothing
	Session     content.SessionID
	By          string       // who sent it, as recorded with decisions
	At          content.Time // when the driver took it in hand; set by the driver
	TraceParent string
	Command     Command

	// Catalog is what the host's tool sources offer, if it differs from what the
	// session knows. It is attached by the host and does not travel.
	Catalog *events.Catalog
	// Checks judge the patched call of a ResolveApproval that brings input.
	Checks []Check
	// Hooks are what the hooks of the session's start say of an OpenSession, and those of
	// its end of a Close. They are attached by the host and do not travel.
	Hooks []HookAnswer
}

// Command is an ask or a report. It is sealed: the kinds are the structs of this
// package.
//
//sumtype:decl
type Command interface {
	command()
}

// ErrBadCommand is returned by Decode for bytes that are no command of this
// release; count it and pass over it.
var ErrBadCommand = errors.New("bad command")

const envelopeFields = 7

// Encode returns the bytes of e as they travel.
func (e Envelope) Encode() ([]byte, error) {
	b, err := wire.Encode(wire.CommandDepth, func(enc *msgpack.Encoder) error {
		return errors.Join(
			enc.EncodeArrayLen(envelopeFields),
			enc.EncodeString(e.ID),
			enc.EncodeString(string(e.Session)),
			enc.EncodeString(e.By),
			enc.EncodeInt(int64(e.At)),
			enc.EncodeString(e.TraceParent),
			enc.EncodeString(NameOf(e.Command)),
			enc.Encode(e.Command),
		)
	})
	if err != nil {
		return nil, fmt.Errorf("encode command %s for %s: %w", e.ID, e.Session, err)
	}
	return b, nil
}

// Decode reads what Encode wrote. It returns ErrBadCommand for anything else.
func Decode(b []byte) (e Envelope, err error) {
	if err := wire.Decode(b, wire.CommandDepth, e.decode); err != nil {
		return e, fmt.Errorf("%w: %w", ErrBadCommand, err)
	}
	return e, nil
}

// decode fills in as much as there is.
func (e *Envelope) decode(dec *msgpack.Decoder) error {
	var name string
	if n, err := dec.DecodeArrayLen(); err != nil || n != envelopeFields {
		return errors.New("no envelope")
	}
	if err := dec.DecodeMulti(&e.ID, &e.Session, &e.By, &e.At, &e.TraceParent, &name); err != nil {
		return err
	}
	if e.ID == "" || len(e.ID) > maxIDLen {
		return fmt.Errorf("id of %d bytes, want 1 to %d", len(e.ID), maxIDLen)
	}
	c, err := decodeCommand(name, dec)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	e.Command = c
	return nil
}

const maxIDLen = 256

func decodeAs[T Command](dec *msgpack.Decoder) (Command, error) {
	var v T
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode %T: %w", v, err)
	}
	return v, nil
}
