package top

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// doneCounts counts what was done since a time.
type doneCounts struct {
	Since     time.Time                      `json:"since"`
	Entries   int64                          `json:"entries"`
	Turns     map[content.FinishReason]int64 `json:"turns"`
	Usage     content.Usage                  `json:"usage"`
	Takeovers int64                          `json:"takeovers"`
}

// counter counts what the journal records as done. follow runs once; the other methods are safe for concurrent use.
type counter struct {
	from jetstream.Cursor

	mu       sync.Mutex
	done     doneCounts
	position uint64                     // stream position of the last counted entry
	driven   map[content.SessionID]bool // sessions whose last entry did not park them
}

func newCounter(from jetstream.Cursor) *counter {
	return &counter{
		from: from, position: from.Position, driven: make(map[content.SessionID]bool),
		done: doneCounts{Since: time.Now(), Turns: make(map[content.FinishReason]int64)},
	}
}

// follow counts entries until ctx ends, and returns why it ended.
func (c *counter) follow(ctx context.Context, cell *cli.Cell) error {
	for rec, err := range cell.Journal().Observe(ctx, jetstream.AllSessions, c.from) {
		if err != nil {
			return ended(err)
		}
		c.add(rec)
	}
	return ended(context.Cause(ctx))
}

func (c *counter) add(rec journal.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.position = rec.Guard
	c.done.Entries++
	if rec.Err != nil {
		return // damaged, or written by a later release
	}
	for _, ev := range rec.Entry.Events {
		switch ev := any(ev).(type) {
		case events.DriverClaimed:
			if c.driven[rec.Entry.Session] && ev.Restored == nil {
				c.done.Takeovers++
			}
		case events.TurnFinished:
			c.done.Turns[ev.FinishReason]++
		case events.UsageUpdated:
			c.done.Usage = c.done.Usage.Add(ev.Own())
		}
	}
	if engine.Parks(rec.Entry) {
		delete(c.driven, rec.Entry.Session)
	} else if _, deleted := events.DeletionOf(rec.Entry); !deleted {
		c.driven[rec.Entry.Session] = true
	}
}

// view returns the view to show, with the counts so far.
func (c *counter) view(b admin.Backlog) view {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := view{Backlog: b, Done: c.done, Lag: b.Position - min(c.position, b.Position)}
	v.Done.Turns = maps.Clone(c.done.Turns)
	return v
}
