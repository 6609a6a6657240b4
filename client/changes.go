package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
)

// latestChunk is how many entries Latest reads at a time, starting at the end of the journal.
const latestChunk = 1000

// Latest yields the sessions by their last change, latest first, including deleted ones. It reads the journal
// backward, as far as the caller iterates.
func (c *Client) Latest(ctx context.Context) iter.Seq2[content.SessionID, error] {
	return func(yield func(content.SessionID, error) bool) {
		end, err := c.journal.End(ctx, jetstream.AllSessions)
		seen := make(map[content.SessionID]bool)
		for high := end.Position; high > 0 && err == nil; high -= min(high, latestChunk) {
			var ids []content.SessionID
			if ids, err = c.changed(ctx, jetstream.Cursor{Position: high - min(high, latestChunk)}, high); err != nil {
				break
			}
			for _, id := range slices.Backward(ids) {
				if !seen[id] && !yield(id, nil) {
					return
				}
				seen[id] = true
			}
		}
		if err != nil {
			yield("", fmt.Errorf("list sessions: %w", err))
		}
	}
}

// entries yields the entries of all sessions after a cursor, up to a position in the journal. There is always
// an entry at that position or after it, since a deletion leaves a tombstone.
func (c *Client) entries(ctx context.Context, after jetstream.Cursor, to uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for r, err := range c.journal.Observe(ctx, jetstream.AllSessions, after) {
			if err != nil {
				yield(r, err)
				return
			}
			if r.Guard <= to && !yield(r, nil) || r.Guard >= to {
				return
			}
		}
		yield(journal.Record{}, context.Cause(ctx))
	}
}

// changed returns the session of each entry after a cursor, up to a position.
func (c *Client) changed(ctx context.Context, after jetstream.Cursor, to uint64) (ids []content.SessionID, err error) {
	for r, err := range c.entries(ctx, after, to) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, r.Entry.Session)
	}
	return ids, nil
}

// Changes finds out which sessions have changed. Its cost depends on how many changed, not on how many there
// are. The zero Changes knows nothing.
type Changes struct {
	At jetstream.Cursor // the last entry that it has seen
}

// Hold reports whether the journal still has the last entry that x has seen. If not, the journal was replaced
// or went back.
func (x *Changes) Hold(ctx context.Context, c *Client) (bool, error) {
	end, err := c.journal.End(ctx, jetstream.AllSessions)
	switch {
	case err != nil:
		return false, fmt.Errorf("list sessions: %w", err)
	case x.At.Position == 0 || x.At.Position > end.Position:
		return false, nil
	case x.At.Position == end.Position:
		return x.At.Hash == end.Hash, nil
	}
	if _, err = c.changed(ctx, x.At, x.At.Position+1); err != nil && !errors.Is(err, jetstream.ErrCursor) {
		return false, fmt.Errorf("list sessions: %w", err)
	}
	return err == nil, nil
}

// mostChanges is how many entries Next reads at most. For more, listing all sessions costs less.
const mostChanges = 10_000

// Next returns the sessions that have changed since the last call; one may appear several times. known is
// false on the first call, after too many changes, and if the journal is a different one: then any session
// may have changed.
func (x *Changes) Next(ctx context.Context, c *Client) (ids []content.SessionID, known bool, err error) {
	end, err := c.journal.End(ctx, jetstream.AllSessions)
	if err != nil {
		return nil, false, fmt.Errorf("list sessions: %w", err)
	}
	last := x.At
	x.At = end
	if last.Position == end.Position {
		return nil, last.Hash == end.Hash && end.Position > 0, nil
	}
	if last.Position == 0 || last.Position > end.Position || end.Position-last.Position > mostChanges {
		return nil, false, nil
	}
	ids, err = c.changed(ctx, last, end.Position)
	switch {
	case errors.Is(err, jetstream.ErrCursor):
		return nil, false, nil
	case err != nil:
		x.At = last
		return nil, false, fmt.Errorf("list sessions: %w", err)
	}
	return ids, true, nil
}

// Entries yields the entries of all sessions since the last one that its caller has handled, in the order of
// storage. If an entry is damaged or cannot be read, its record says so. Entries does not check that the
// journal is the same as before: see Hold.
func (x *Changes) Entries(ctx context.Context, c *Client) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		end, err := c.journal.End(ctx, jetstream.AllSessions)
		if err == nil && end.Position > x.At.Position {
			for r, failed := range c.entries(ctx, x.At, end.Position) {
				if err = failed; err != nil {
					break
				}
				if !yield(r, nil) {
					return
				}
				x.At = jetstream.CursorAt(r)
			}
		}
		if err != nil {
			yield(journal.Record{}, fmt.Errorf("read the entries of all sessions: %w", err))
		}
	}
}
