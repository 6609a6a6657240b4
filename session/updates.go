package session

import (
	"context"
	"iter"
	"sync"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// Update is one thing that happened in a session while a turn was followed.
type Update struct {
	Record *journal.Record // the entry that holds Event; nil: Event is live only, and may be lost
	Event  events.Event
	Own    bool // a recorded event of the followed turn
	Last   bool // the last event of its entry
}

// Updates runs the turn to its end like Wait, and yields everything that happens in the session
// until then. It starts at Submit or, for a turn from Open, Turn or Latest, with the turn's first
// entry. An error is the last pair. After the turn's end, Wait returns its result. Leaving the loop
// cancels the turn, except after Close.
func (t *Turn) Updates(ctx context.Context) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		box := t.box()
		result := make(chan error, 1)
		go func() {
			_, err := t.wait(ctx)
			result <- err
		}()
		leave := func() {
			cancel(errConsumerLeft)
			<-result //nolint:errcheck // it was cancelled
		}
		if !t.yieldPast(ctx, yield) {
			leave()
			return
		}
		for {
			select {
			case <-box.news:
			case err := <-result:
				if box.drain(yield) && err != nil {
					yield(Update{}, err)
				}
				return
			}
			if !box.drain(yield) {
				leave()
				return
			}
		}
	}
}

// box returns the mailbox for the turn's updates. Collecting starts with the first use, and again
// with the next use after a Wait or Updates has closed the box.
func (t *Turn) box() (box *mailbox) {
	s := t.s
	s.live.Lock()
	box = t.updates
	s.live.Unlock()
	if box != nil {
		return box
	}
	box = newMailbox()
	if !t.isClosed() {
		s.keep(t)
	}
	_ = s.backend.View(func(_ *loop.State, head journal.Head) {
		if t.past && t.id != "" {
			t.replay = head.Seq
		}
		t.past = false
		if t.end != nil || t.isClosed() {
			return // nothing more arrives
		}
		s.live.Lock()
		t.updates, s.streams = box, append(s.streams, t)
		s.live.Unlock()
	})
	return box
}

// yieldPast yields the entries of the turn that the journal had when the turn was first followed,
// once. It reports whether to continue.
func (t *Turn) yieldPast(ctx context.Context, yield func(Update, error) bool) bool {
	if t.replay == 0 {
		return true
	}
	upTo := t.replay
	t.replay = 0
	ctx, stop := t.followed(ctx)
	defer stop(nil)
	for u, err := range t.s.history(ctx, t.ID(), upTo) {
		switch {
		case err != nil && ctx.Err() != nil: // Wait says why
			return true
		case err != nil:
			t.Close() // the turn continues
			yield(u, err)
			return false
		case !yield(u, nil):
			return false
		}
	}
	return true
}

// History yields the entries of a turn so far, and the entries between the end of the previous turn
// and its start. It reads the journal.
func (s *Session) History(ctx context.Context, turn content.TurnID) iter.Seq2[Update, error] {
	return s.history(ctx, turn, s.Head().Seq)
}

func (s *Session) history(ctx context.Context, turn content.TurnID, upTo uint64) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		var open content.TurnID
		var ahead []Update // since the last turn, until the wanted one begins
		for rec, err := range s.backend.Read(ctx) {
			if err != nil {
				yield(Update{}, err)
				return
			}
			for i, ev := range rec.Entry.Events {
				before := open
				open = openAfter(open, ev)
				u := Update{Record: &rec, Event: ev, Own: before == turn || open == turn, Last: i == len(rec.Entry.Events)-1}
				if ahead = append(ahead, u); open == turn || u.Own {
					for _, u := range ahead {
						if !yield(u, nil) {
							return
						}
					}
					ahead = ahead[:0]
				}
				if u.Own && open != turn { // it has ended
					return
				}
				if open == "" && before != "" {
					ahead = ahead[:0]
				}
			}
			if rec.Seq >= upTo {
				return
			}
		}
	}
}

// mailbox holds the updates that the consumer has not taken yet, so that a slow consumer does not
// block the session. If too many live events wait, more are dropped, because workers can send any
// number of them.
type mailbox struct {
	news chan struct{}

	mu    sync.Mutex
	items []Update
	live  int // approximate size of the live events in items, in bytes
}

// maxLive limits how many bytes of live events wait for a consumer.
const maxLive = 8 << 20

// liveSize returns approximately how much memory a live event takes.
func liveSize(ev events.Event) int {
	const own = 256
	switch ev := ev.(type) { //nolint:gochecksumtype // the others are small
	case events.ContentDelta:
		if c := ev.Delta.Call; c != nil {
			return own + len(ev.Delta.Text) + len(c.Input)
		}
		return own + len(ev.Delta.Text)
	case events.ToolProgress:
		return own + len(ev.Text)
	case events.Refused:
		return own + len(ev.Detail)
	}
	return own
}

func newMailbox() *mailbox { return &mailbox{news: make(chan struct{}, 1)} }

func (b *mailbox) put(u Update) {
	b.mu.Lock()
	size := 0
	if u.Record == nil {
		size = liveSize(u.Event)
	}
	if u.Record != nil || b.live+size <= maxLive {
		b.items, b.live = append(b.items, u), b.live+size
	}
	b.mu.Unlock()
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// drain yields the updates that have arrived, and reports whether the consumer wants more.
func (b *mailbox) drain(yield func(Update, error) bool) bool {
	b.mu.Lock()
	items := b.items
	b.items, b.live = nil, 0
	b.mu.Unlock()
	for _, it := range items {
		if !yield(it, nil) {
			return false
		}
	}
	return true
}
