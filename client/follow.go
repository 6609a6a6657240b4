package client

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Update is one thing that happened in a session: an entry, or something live.
type Update struct {
	Record *journal.Record // an entry; or
	Live   events.Event    // a delta, progress or refusal; it may be lost, and entries supersede it
}

// Follow yields a session's entries after a sequence number, each once and in order, and continues with new
// ones as they are written. Live events come between them. It ends with an error or when ctx ends.
func (c *Client) Follow(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[Update, error] {
	return c.follow(ctx, s, func(ctx context.Context) records { return c.journal.Follow(ctx, s, after) })
}

// FollowFrom is Follow after an entry that was read before. It does not scan earlier entries, so its cost
// does not depend on where it begins.
func (c *Client) FollowFrom(ctx context.Context, s content.SessionID, head journal.Head) iter.Seq2[Update, error] {
	return c.follow(ctx, s, func(ctx context.Context) records { return c.journal.FollowFrom(ctx, s, head) })
}

// Records yields a session's current entries after a sequence number.
func (c *Client) Records(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[journal.Record, error] {
	return c.journal.Read(ctx, s, after)
}

// RecordsFrom is Records after an entry that was read before. It does not scan earlier entries.
func (c *Client) RecordsFrom(ctx context.Context, s content.SessionID, head journal.Head) iter.Seq2[journal.Record, error] {
	return c.journal.ReadFrom(ctx, s, head)
}

// EntryFrom returns the first entry of a session at or after a position in the journal; an entry's position
// is the Guard of its head. It returns session.ErrNotFound if there is none.
func (c *Client) EntryFrom(ctx context.Context, s content.SessionID, position uint64) (journal.Record, error) {
	return c.journal.From(ctx, s, position)
}

func (c *Client) follow(ctx context.Context, s content.SessionID, entries func(context.Context) records) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		updates, err := c.feed(ctx, s, entries)
		if err != nil {
			yield(Update{}, fmt.Errorf("follow %s: %w", s, err))
			return
		}
		updates(yield)
	}
}

type records = iter.Seq2[journal.Record, error]

// feed yields entries with live events between them, until ctx ends. It subscribes to live events at once.
// The sequence can be iterated only once.
func (c *Client) feed(
	ctx context.Context, s content.SessionID, entries func(context.Context) records,
) (iter.Seq2[Update, error], error) {
	ctx, cancel := context.WithCancel(ctx)
	live, err := c.cell.Live().Subscribe(ctx, s)
	if err != nil {
		cancel()
		return nil, err
	}
	return func(yield func(Update, error) bool) {
		f := feed{out: make(chan Update), quit: make(chan struct{})}
		var running sync.WaitGroup
		defer running.Wait()
		defer close(f.quit)
		defer cancel()
		running.Go(func() {
			for _, ev := range live {
				f.put(Update{Live: ev})
			}
		})
		ended := make(chan error, 1)
		running.Go(func() { ended <- f.entries(entries(ctx)) })
		over := 0 // the number of the last turn that ended
		for {
			select {
			case u := <-f.out:
				if u.Record == nil && engine.Late(u.Live, over) {
					continue
				}
				over = max(over, endedIn(u.Record))
				if !yield(u, nil) {
					return
				}
			case err := <-ended:
				if err != nil && ctx.Err() == nil {
					yield(Update{}, err)
				}
				return
			}
		}
	}, nil
}

// endedIn returns the number of the last turn that ends in an entry, or 0.
func endedIn(rec *journal.Record) (n int) {
	if rec == nil {
		return 0
	}
	for _, ev := range rec.Entry.Events {
		if end, ok := ev.(events.TurnFinished); ok {
			n = end.Turn.Number()
		}
	}
	return n
}

// feed merges entries and live events.
type feed struct {
	out  chan Update
	quit chan struct{}
}

func (f feed) put(u Update) bool {
	select {
	case f.out <- u:
		return true
	case <-f.quit:
		return false
	}
}

func (f feed) entries(all records) error {
	for rec, err := range all {
		if err != nil {
			return err
		}
		if !f.put(Update{Record: &rec}) {
			return nil
		}
	}
	return nil
}
