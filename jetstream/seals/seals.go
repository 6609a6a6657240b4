// Package seals manages the keys of sealed sessions: it lists them, wraps them with another seal key, and
// destroys them, which erases the content of their sessions.
//
// A cell has these keys only wrapped, in its stream SEALS. Destroying one does not need the seal key.
package seals

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/sealing"
)

// Keys are the keys of a cell's sealed sessions. It is safe for concurrent use.
type Keys struct {
	stored *sealing.Keys
	cell   *jetstream.Cell
}

// Of returns the keys of a cell, with its seal keys.
func Of(c *jetstream.Cell) *Keys {
	return &Keys{sealing.New(api.New(c.Conn()), layout.New(c.Namespace()), c.SealRing()), c}
}

// Children returns the sessions of sub-agents that worked for calls of a session, and those of theirs.
func (k *Keys) Children(ctx context.Context, of content.SessionID) ([]content.SessionID, error) {
	all, err := k.stored.Stored(ctx, jetstream.AllSessions)
	return sealing.Children(all, of), err
}

// Left reports whether the cell has a wrapped key of a session. An erased session may still have one if the
// erasure was interrupted, or if a backup brought the key back.
func (k *Keys) Left(ctx context.Context, s content.SessionID) (bool, error) {
	all, err := k.stored.Stored(ctx, s)
	return len(all) > 0, err
}

// Destroy removes the wrapped key of a session. The server overwrites its bytes.
func (k *Keys) Destroy(ctx context.Context, s content.SessionID) error {
	return k.stored.Destroy(ctx, s)
}

// Wrapped are the wrapped keys of one session.
type Wrapped []sealing.Stored

// Wrapped returns the wrapped keys that a session has now.
func (k *Keys) Wrapped(ctx context.Context, s content.SessionID) (Wrapped, error) {
	return k.stored.Stored(ctx, s)
}

// DestroyThese is Destroy for keys that Wrapped returned earlier. Keys that were stored since then stay.
func (k *Keys) DestroyThese(ctx context.Context, s content.SessionID, these Wrapped) error {
	return k.stored.Erase(ctx, s, these)
}

// Rewrapped says what Rewrap did.
type Rewrapped struct {
	Sessions int `json:"sessions"`  // sessions that have keys
	Done     int `json:"rewrapped"` // keys of these that were wrapped now
}

// Rewrap wraps the keys of all sessions that are not wrapped with the ring's first seal key. An interrupted
// Rewrap can be repeated. It destroys keys of erased sessions. Its error names the sessions whose keys it
// could not wrap; it wraps all others.
func (k *Keys) Rewrap(ctx context.Context) (out Rewrapped, err error) {
	all, err := k.stored.Stored(ctx, jetstream.AllSessions)
	if err != nil {
		return out, err
	}
	var failed []error
	sessions := make(map[content.SessionID]bool)
	for _, at := range all {
		sessions[at.Session] = true
		done, err := k.stored.Rewrap(ctx, at)
		if err == nil {
			err = k.stayErased(ctx, at.Session)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return out, fmt.Errorf("wrap keys again: %w", context.Cause(ctx))
		case err != nil:
			failed = append(failed, err)
		case done:
			out.Done++
		}
	}
	out.Sessions = len(sessions)
	return out, errors.Join(slices.Clip(failed)...)
}

// stayErased destroys the key of a session that was erased while its key was wrapped: an erasure destroys
// only the copies that exist after its tombstone.
func (k *Keys) stayErased(ctx context.Context, s content.SessionID) error {
	last, err := k.cell.Journal().Last(ctx, s)
	d, gone := events.DeletionOf(last.Entry)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("wrap the key of session %s again: %w", s, err)
	case gone && d.Erased:
		return k.stored.Destroy(ctx, s)
	}
	return nil
}
