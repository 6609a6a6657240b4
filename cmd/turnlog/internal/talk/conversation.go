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

// errLeft is returned when the caller went away before the turn's end.
var errLeft = errors.New("left before the turn's end")

// view is shown what happens while a turn is waited for. It belongs to the
// goroutine that waits.
type view interface {
	entry(rec journal.Record) // every new entry of the session
	event(ev events.Event)    // every recorded event of the turn, in order
	live(ev events.Event)     // deltas and progress, of any turn, early or late
	note(text string)         // what a person should know meanwhile
	ask(text string)          // a question; the answer is app.Line behind it
	strict()                  // answers have to fit a schema: what does not is not the output
}

// conversation is a session seen from here: asks go out, entries and live events
// come in. It belongs to one goroutine.
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

// people are those here who decide approvals.
type people struct {
	name  string                      // as it is recorded
	yes   bool                        // to all
	lines func() <-chan app.Line      // what they type; nil: they cannot be asked
	how   func(content.CallID) string // a call's approval is decided, if not here
}

// news is what following the journal brought.
type news struct {
	rec journal.Record
	err error
}

// converse joins the session with that id, or one that is still to be started, and
// reads what the journal holds.
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

// attach joins a session and has read nothing of its journal yet. The live events
// are heard from before the first ask, so that no refusal is missed.
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

// hear listens to a session's live events.
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

// follow reads a session's journal from its beginning, and goes on with it.
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

// catchUp takes in the journal up to a sequence number.
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

// take takes in an entry.
func (v *conversation) take(rec journal.Record, show view) {
	v.tracker.take(rec, func(ev events.Event) {
		if v.tracker.config.Output != nil {
			show.strict()
		}
		show.event(ev)
	})
	show.entry(rec)
}

// close lets go of the session, which goes on without us.
func (v *conversation) close() { v.hangUp() }
