package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// LiveBuffer is how many live copies wait for a slow reader. The reader gets the rest from the stream.
	LiveBuffer = 256

	// Quiet is how long no live copy may arrive before the stream is read: the server may lose copies without
	// notice when leaders change.
	Quiet = 3 * time.Second
)

// ErrEnough is returned by a Tail's Use if its reader wants no more.
var ErrEnough = errors.New("enough")

// Tail follows the messages on a subject of a stream, without gap or repetition. The goroutine that runs
// it owns it.
type Tail struct {
	Stream  string
	Subject string
	Live    string // the subject of live copies

	Begin    func(context.Context) error         // runs until it succeeds, before anything is read; may be nil
	Use      func(m Message, live bool) error    // uses a message, or returns an error and has no effect
	Adjacent func(m Message, before uint64) bool // reports whether a live copy is the next message

	At uint64 // position of the last used message
}

// Follow runs t until ctx ends, Use returns ErrEnough, or a permanent error. It subscribes before it
// reads the history, so that no message is missed in between.
func (c *Conn) Follow(ctx context.Context, t *Tail) error {
	live := make(chan *nats.Msg, LiveBuffer)
	sub, err := c.nc.Subscribe(t.Live, func(msg *nats.Msg) {
		select {
		case live <- msg:
		default: // dropped; the next one that fits shows the gap
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	status := c.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer c.nc.RemoveStatusListener(status)

	idle := time.NewTimer(Quiet)
	defer idle.Stop()
	err = c.catchUp(ctx, t)
	for ; err == nil; err = c.tolerate(err) {
		idle.Reset(Quiet)
		select {
		case <-ctx.Done():
			return nil
		case msg := <-live:
			err = c.hint(ctx, t, msg)
		case <-status:
			if c.nc.IsClosed() {
				return nats.ErrConnectionClosed
			}
			err = c.catchUp(ctx, t)
		case <-idle.C:
			err = c.catchUp(ctx, t)
		}
	}
	if errors.Is(err, ErrEnough) || ctx.Err() != nil {
		return nil
	}
	return err
}

// tolerate drops temporary errors.
func (c *Conn) tolerate(err error) error {
	if IsTransient(err) || IsNoJetStream(err) && !c.nc.IsClosed() {
		return nil
	}
	return err
}

// hint uses a live copy if it is the next message. It reads the stream if messages in between are missing,
// or if Use rejects the copy.
func (c *Conn) hint(ctx context.Context, t *Tail, msg *nats.Msg) error {
	m, before, err := parseCopy(msg)
	if err != nil || m.Seq <= t.At {
		return nil //nolint:nilerr // not published by the server
	}
	if t.Begin == nil && t.Adjacent(m, before) {
		if err = t.take(m, true); err == nil || errors.Is(err, ErrEnough) {
			return err
		}
	}
	return c.catchUp(ctx, t)
}

func (t *Tail) take(m Message, live bool) error {
	if err := t.Use(m, live); err != nil {
		return err
	}
	t.At = m.Seq
	return nil
}

// catchUp reads all new messages.
func (c *Conn) catchUp(ctx context.Context, t *Tail) error {
	if t.Begin != nil {
		if err := t.Begin(ctx); err != nil {
			return err
		}
		t.Begin = nil
	}
	for m, err := range c.All(ctx, t.Stream, t.Subject, t.At+1) {
		if err == nil {
			err = t.take(m, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
