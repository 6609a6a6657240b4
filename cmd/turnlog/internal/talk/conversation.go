package talk

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
)

// errLeft is returned when the user left before the turn's end.
var errLeft = errors.New("left before the turn's end")

// view shows what happens while a turn is followed. It belongs to the goroutine that
// waits.
type view interface {
	entry(rec journal.Record) // every new entry of the session
	event(ev events.Event)    // every recorded event of the turn, in order
	live(ev events.Event)     // deltas and progress of any turn, early or late
	note(text string)         // a hint to the user
	ask(text string)          // a question; the answer is app.Line behind it
	strict()                  // answers must match a schema: only one that does is output
}

// conversation is a session as a command sees it: it sends commands and receives entries
// and live events. It belongs to one goroutine.
type conversation struct {
	client   *client.Client
	cell     *jetstream.Cell
	id       content.SessionID
	tracker  tracker
	entries  <-chan news
	live     <-chan events.Event
	signals  <-chan os.Signal
	patience app.Patience
	people   people
	hangUp   context.CancelFunc
}

// people says how approvals are decided.
type people struct {
	name  string                      // recorded with decisions
	yes   bool                        // approve everything
	lines func() <-chan app.Line      // what the user types; nil: no terminal
	how   func(content.CallID) string // to decide a call's approval elsewhere
}

// news is an entry of the journal, or why there are no more.
type news struct {
	rec journal.Record
	err error
}

// converse attaches to a session, which may not exist yet, and reads its journal.
func (a talker) converse(ctx context.Context, cell *jetstream.Cell, c *client.Client, id content.SessionID) (*conversation, error) {
	v, err := a.attach(ctx, cell, c, id)
	if err != nil {
		return nil, err
	}
	last, err := cell.Journal().Last(ctx, id)
	if errors.Is(err, journal.ErrNotFound) {
		return v, nil
	}
	if err == nil {
		err = v.catchUp(ctx, last.Seq, silent{})
	}
	if err != nil {
		v.close()
		return nil, fmt.Errorf("session %s: %w", id, err)
	}
	return v, nil
}

// attach attaches to a session without reading its journal. It subscribes to live events
// before anything is sent, so that no refusal is missed.
func (a talker) attach(ctx context.Context, cell *jetstream.Cell, c *client.Client, id content.SessionID) (*conversation, error) {
	following, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	v := &conversation{client: c, cell: cell, id: id, signals: a.Signals, patience: a.Patience, hangUp: hangUp}
	v.people = people{name: a.Person(), how: func(call content.CallID) string {
		return fmt.Sprintf("decide with \"turnlog approve %s %s\" or \"turnlog deny %s %s\"", id, call, id, call)
	}}
	live, err := hear(following, cell, id)
	if err != nil {
		hangUp()
		return nil, err
	}
	v.live, v.entries = live, follow(following, cell, id)
	return v, nil
}

// hear subscribes to a session's live events.
func hear(ctx context.Context, cell *jetstream.Cell, id content.SessionID) (<-chan events.Event, error) {
	live, err := cell.Live().Subscribe(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make(chan events.Event)
	go func() { // ends with ctx
		for _, ev := range live {
			select {
			case out <- ev:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// follow reads a session's journal from its start, and follows it.
func follow(ctx context.Context, cell *jetstream.Cell, id content.SessionID) <-chan news {
	out := make(chan news)
	go func() { // ends with ctx
		for rec, err := range cell.Journal().Follow(ctx, id, 0) {
			if err == nil {
				err = rec.Err
			}
			select {
			case out <- news{rec, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// silent shows nothing.
type silent struct{}

func (silent) entry(journal.Record) {}
func (silent) event(events.Event)   {}
func (silent) live(events.Event)    {}
func (silent) note(string)          {}
func (silent) ask(string)           {}
func (silent) strict()              {}

// catchUp reads the journal up to a sequence number.
func (v *conversation) catchUp(ctx context.Context, seq uint64, show view) error {
	for v.tracker.head.Seq < seq {
		select {
		case n := <-v.entries:
			if n.err != nil {
				return n.err
			}
			v.take(n.rec, show)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// take tracks and shows an entry.
func (v *conversation) take(rec journal.Record, show view) {
	v.tracker.take(rec, func(ev events.Event) {
		if v.tracker.config.Output != nil {
			show.strict()
		}
		show.event(ev)
	})
	show.entry(rec)
}

// close stops following the session.
func (v *conversation) close() { v.hangUp() }
