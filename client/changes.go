package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
)

// latestChunk is how many entries Latest reads at a time, from the end of the journal on.
const latestChunk = 1000

// Latest yields the sessions in the order in which they changed, the latest first, also those that were deleted. It reads the
// journal backwards, as far as the caller goes.
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

// changed returns the session of each entry after a cursor, up to a position in the journal. There is an entry at that position
// or after it: what is deleted leaves a tombstone.
func (c *Client) changed(ctx context.Context, after jetstream.Cursor, to uint64) (ids []content.SessionID, err error) {
	for r, err := range c.journal.Observe(ctx, jetstream.AllSessions, after) {
		if err != nil {
			return nil, err
		}
		if r.Guard <= to {
			ids = append(ids, r.Entry.Session)
		}
		if r.Guard >= to {
			return ids, nil
		}
	}
	return nil, context.Cause(ctx)
}

// Changes finds out which sessions have changed. What it costs depends on their number, and not on that of all. The zero
// Changes knows nothing.
type Changes struct {
	At jetstream.Cursor // the last entry of which it knows
}

// Hold reports whether the journal has the last entry of which x knows. If it does not, it is another journal, or went back.
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

// mostChanges is how many entries Next reads at most: what lists all sessions costs less than more.
const mostChanges = 10_000

// Next returns the sessions that have changed since it was called before, perhaps several times. It does not know that at first, after
// many changes, and if the journal is another one: then any session may have changed.
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
