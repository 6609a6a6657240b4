package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/jetstream/internal/sealing"
)

// Sealing returns the cell, over the same connection, with seal keys, so that it reads and writes sealed
// sessions. All of their stored data is sealed where messages are packed, and opened where they are
// unpacked. With an empty ring, reading a sealed session returns an *events.SealedError.
func (c *Cell) Sealing(ring seal.Ring) *Cell {
	sealing := *c
	sealing.seals = newSeals(c, ring)
	return &sealing
}

func newSeals(c *Cell, ring seal.Ring) *sealing.Keys { return sealing.New(c.api, c.names, ring) }

// SealRing returns the seal keys passed to Sealing.
func (c *Cell) SealRing() seal.Ring { return c.seals.Ring() }

// Seal makes a session sealed that is about to start. parent is the session whose content it gets, because
// it works for that session or continues it; "": none. A session with a sealed parent must be sealed, too.
func (c *Cell) Seal(ctx context.Context, s, parent content.SessionID) error {
	if !content.IsToken(string(s)) {
		return fmt.Errorf("seal %q: %w", s, content.ErrBadID)
	}
	return c.seals.Create(ctx, s, parent)
}

// IsSealed reports whether a session is sealed, as far as this cell's seal keys can tell.
func (c *Cell) IsSealed(ctx context.Context, s content.SessionID) (bool, error) {
	key, err := c.seals.Of(ctx, s)
	return key != nil, err
}

// seal seals an entry if its session is sealed. It does not seal a tombstone, which anyone may read.
func (c *Cell) seal(ctx context.Context, e *events.Entry) error {
	e.Sealing = nil
	if len(e.Events) == 1 && events.KindOf(e.Events[0]) == events.KindSessionDeleted {
		return nil
	}
	key, err := c.seals.Of(ctx, e.Session)
	if err == nil && key != nil {
		e.Sealing = events.NewSealing(key)
	}
	return err
}

// open decodes an entry. A sealed one needs the key of its session.
func (c *Cell) open(ctx context.Context, s content.SessionID, payload []byte) (events.Entry, error) {
	e, err := events.Decode(payload)
	switch {
	case e.Sealing == nil:
		if _, deleted := events.DeletionOf(e); deleted {
			c.seals.Forget(s)
		} else if err == nil && e.Session == s {
			c.seals.Unsealed(s)
		}
		return e, err
	case err == nil || e.Session != s:
		return e, err
	}
	closed, ok := errors.AsType[*events.SealedError](err)
	if !ok {
		return e, err
	}
	key, why := c.seals.With(ctx, s, e.Sealing.ID)
	switch {
	case why != nil && ctx.Err() != nil:
		return e, context.Cause(ctx)
	case why != nil:
		closed.Why = why
	case key != nil:
		return events.Open(payload, key)
	}
	return e, err
}

// openCommand opens the data of a command. A command that no process can open is a bad command: its session
// is not sealed, or its key is gone.
func (c *Cell) openCommand(ctx context.Context, m *Message) error {
	data, err := c.seals.OpenWith(ctx, m.session, sealing.Command, m.sealed, m.data)
	if err == nil {
		m.data = data
		return nil
	}
	bad := errors.Is(err, seal.ErrNotOpened) || errors.Is(err, sealing.ErrGone)
	if _, closed := errors.AsType[*events.SealedError](err); closed && !bad {
		last, lastErr := c.Journal().Last(ctx, m.session)
		bad = lastErr == nil && last.Entry.Version == events.Version
	}
	if bad {
		return fmt.Errorf("%w: %w", commands.ErrBadCommand, err)
	}
	return err
}

// pack puts data of a session into a message that has a header map. It seals the data if the session is
// sealed.
func (c *Cell) pack(ctx context.Context, s content.SessionID, purpose string, msg *nats.Msg, data []byte) error {
	data, err := c.seals.Close(ctx, s, purpose, msg.Header, data)
	if err != nil {
		return err
	}
	return c.put(ctx, msg, data)
}

// unpack reverses pack, up to a limit in bytes; see get.
func (c *Cell) unpack(ctx context.Context, s content.SessionID, purpose string, h nats.Header, data []byte, limit int64) ([]byte, error) {
	data, err := c.get(ctx, h, data, limit)
	if err != nil {
		return nil, err
	}
	return c.seals.Open(ctx, s, purpose, h, data)
}
