package client

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events/journal"
)

// maxLag is how many updates may wait for a slow reader. If there are more, the reader follows the session on
// its own.
const maxLag = 1024

// Follows lets many readers follow sessions. All readers of a session share the cost of one.
type Follows struct {
	client *Client

	mu  sync.Mutex // guards all, and the fields of its values
	all map[content.SessionID]*followed
}

// NewFollows returns a Follows for the readers of a client.
func NewFollows(c *Client) *Follows {
	return &Follows{client: c, all: map[content.SessionID]*followed{}}
}

// followed is a session that has readers.
type followed struct {
	updates iter.Seq2[Update, error] // the updates after at; the subscription has begun
	stop    context.CancelFunc
	readers int
	started bool
	at      journal.Head
	last    *link         // the next update, still to come
	newest  atomic.Uint64 // the number of last
	ended   chan struct{}
}

// link is one update in the list that readers walk. The last link has not arrived yet.
type link struct {
	n    uint64
	came chan struct{} // closed when the rest is set
	Update
	err  error
	next *link // nil: not an update; following has ended
}

// FollowFrom is Client.FollowFrom for one of the readers. A slow reader may lose live events, but no entry.
func (f *Follows) FollowFrom(ctx context.Context, s content.SessionID, head journal.Head) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		r := reader{at: head, yield: yield}
		if err := f.share(ctx, s, &r); err != nil {
			yield(Update{}, err)
		}
		if !r.alone {
			return
		}
		for u, err := range f.client.FollowFrom(ctx, s, r.at) {
			if !yield(u, err) {
				return
			}
		}
	}
}

// share gives a reader the shared updates of a session, until it stops or continues alone.
func (f *Follows) share(ctx context.Context, s content.SessionID, r *reader) error {
	of, next, err := f.join(ctx, s)
	if err != nil {
		return fmt.Errorf("follow %s: %w", s, err)
	}
	defer f.leave(s, of)
	for rec, err := range f.client.RecordsFrom(ctx, s, r.at) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if !r.take(Update{Record: &rec}) {
			return nil
		}
	}
	f.start(s, of, r.at)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.came:
		}
		switch rec := next.Record; {
		case next.next == nil, next.err != nil:
			return next.err
		case of.newest.Load()-next.n > maxLag, rec != nil && !r.continues(*rec):
			r.alone = true
			return nil
		case rec != nil && rec.Seq <= r.at.Seq: // the reader has it already
		case !r.take(next.Update):
			return nil
		}
		next = next.next
	}
}

// join adds a reader, which gets all updates from now on.
func (f *Follows) join(ctx context.Context, s content.SessionID) (*followed, *link, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.all[s]
	if of == nil {
		of = &followed{last: &link{came: make(chan struct{})}, ended: make(chan struct{})}
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		updates, err := f.client.feed(ctx, s, func(ctx context.Context) records { return f.client.journal.FollowFrom(ctx, s, of.at) })
		if err != nil {
			stop()
			return nil, nil, err
		}
		of.updates, of.stop, f.all[s] = updates, stop, of
	}
	of.readers++
	return of, of.last, nil
}

// start starts to follow a session after an entry. The first reader that has read that far starts it.
func (f *Follows) start(s content.SessionID, of *followed, at journal.Head) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !of.started {
		of.started, of.at = true, at
		go f.run(s, of)
	}
}

// leave removes a reader. With the last one, following ends.
func (f *Follows) leave(s content.SessionID, of *followed) {
	f.mu.Lock()
	of.readers--
	over := of.readers == 0
	if over {
		f.forget(s, of)
	}
	f.mu.Unlock()
	if over {
		of.stop()
		if of.started {
			<-of.ended
		}
	}
}

// forget makes later readers of a session follow it separately from its current ones.
func (f *Follows) forget(s content.SessionID, of *followed) {
	if f.all[s] == of {
		delete(f.all, s)
	}
}

// run follows a session for its readers.
func (f *Follows) run(s content.SessionID, of *followed) {
	defer close(of.ended)
	for u, err := range of.updates {
		f.put(of, u, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(s, of)
	close(of.last.came)
}

func (f *Follows) put(of *followed, u Update, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := of.last
	of.last = &link{n: l.n + 1, came: make(chan struct{})}
	l.Update, l.err, l.next = u, err, of.last
	of.newest.Store(of.last.n)
	close(l.came)
}

// reader is one reader of a session. Its goroutine owns it.
type reader struct {
	at    journal.Head // the last entry that it has
	over  int          // the number of the last turn that ended
	yield func(Update, error) bool
	alone bool // it follows the session on its own
}

// continues reports whether a record is the reader's next one, or one that it already has.
func (r *reader) continues(rec journal.Record) bool {
	switch rec.Seq {
	case r.at.Seq:
		return rec.Hash == r.at.Hash
	case r.at.Seq + 1:
		return rec.Err != nil || rec.Entry.Prev == r.at.Hash
	}
	return rec.Seq < r.at.Seq
}

// take gives the reader an update, and reports whether it wants more.
func (r *reader) take(u Update) bool {
	if u.Record == nil && engine.Late(u.Live, r.over) {
		return true
	}
	if u.Record != nil {
		r.at, r.over = u.Record.Head, max(r.over, endedIn(u.Record))
	}
	return r.yield(u, nil)
}
