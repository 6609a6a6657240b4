package commands

import (
	"bytes"
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
func Decode(b []byte) (Envelope, error) {
	var (
		e             Envelope
		session, name string
		at            int64
	)
	if err := wire.Check(b, wire.CommandDepth); err != nil {
		return e, fmt.Errorf("%w: %w", ErrBadCommand, err)
	}
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(b))
	n, err := dec.DecodeArrayLen()
	if err != nil || n != envelopeFields {
		return e, fmt.Errorf("%w: no envelope", ErrBadCommand)
	}
	if err := dec.DecodeMulti(&e.ID, &session, &e.By, &at, &e.TraceParent, &name); err != nil {
		return e, fmt.Errorf("%w: %w", ErrBadCommand, err)
	}
	e.Session, e.At = content.SessionID(session), content.Time(at)
	if e.ID == "" || len(e.ID) > maxIDLen {
		return e, fmt.Errorf("%w: id of %d bytes, want 1 to %d", ErrBadCommand, len(e.ID), maxIDLen)
	}
	if e.Command, err = decodeCommand(name, dec); err != nil {
		return e, fmt.Errorf("%w: %s: %w", ErrBadCommand, name, err)
	}
	return e, nil
}

const maxIDLen = 256

func decodeAs[T Command](dec *msgpack.Decoder) (Command, error) {
	var v T
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode %T: %w", v, err)
	}
	return v, nil
}
