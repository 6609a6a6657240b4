package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// origin completes an entry reference with its sequence and hash, and returns the session as it was after
// that entry.
func (c *Client) origin(ctx context.Context, at events.EntryRef) (events.EntryRef, *loop.State, error) {
	sealed, err := c.IsSealed(ctx, at.Session)
	if err != nil {
		return at, nil, err
	}
	if sealed { // the content of a sealed session is not sent
		return at, nil, ErrSealedFork
	}
	if at.Seq == 0 {
		last, err := c.journal.Last(ctx, at.Session)
		if err != nil {
			return at, nil, fmt.Errorf("read %s: %w", at.Session, err)
		}
		at.Seq = last.Seq
	}
	r, err := engine.Reader{Journal: c.journal}.ReadTo(ctx, at.Session, at.Seq)
	switch {
	case err != nil:
		return at, nil, err
	case r.State.Deleted != nil:
		return at, nil, &session.DeletedError{Session: at.Session, Deletion: *r.State.Deleted}
	case r.Head.Seq == 0:
		return at, nil, fmt.Errorf("read %s: %w", at.Session, session.ErrNotFound)
	case !r.State.Opened:
		return at, nil, refused("the session had not started at %s: name a later entry", at.Place())
	case r.Head.Seq < at.Seq:
		return at, nil, refused("there is no %s: the journal ends with entry %d", at.Place(), r.Head.Seq)
	}
	if !at.Hash.IsZero() && at.Hash != r.Head.Hash {
		return at, nil, refused("entry %s has the hash %s, not %s: does it belong to another deployment?", at.Place(), r.Head.Hash, at.Hash)
	}
	at.Hash = r.Head.Hash
	return at, r.State, nil
}

// refused returns the error for an entry that cannot be continued.
func refused(format string, args ...any) error {
	return &session.InvalidStateError{Op: "fork", Reason: commands.ReasonInvalidInput, Detail: fmt.Sprintf(format, args...)}
}

// readers is how many sessions are read at once.
const readers = 16

// Origin says what a session was started from.
type Origin struct {
	From   content.SessionID // the session that it continues; "": none
	Parent content.SessionID // the session that it works for; "": none
}

// Origins returns the origins of all sessions. It reads the beginning of every journal.
func (c *Client) Origins(ctx context.Context) (map[content.SessionID]Origin, error) {
	ids, err := c.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	origins := make(map[content.SessionID]Origin, len(ids))
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for _, id := range ids {
		group.Go(func() error {
			began, err := c.Started(ctx, id)
			var origin Origin
			if began != nil {
				from, _ := events.ParseEntryRef(began.From) // a zero reference if From is empty
				origin = Origin{from.Session, began.Parent}
			}
			mu.Lock()
			defer mu.Unlock()
			origins[id] = origin
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("find origins: %w", err)
	}
	return origins, nil
}

// Forks returns the forks of all sessions, by the session that they continue. It reads the beginning of every
// journal.
func (c *Client) Forks(ctx context.Context) (map[content.SessionID][]content.SessionID, error) {
	origins, err := c.Origins(ctx)
	forks := make(map[content.SessionID][]content.SessionID)
	for _, id := range slices.Sorted(maps.Keys(origins)) {
		if from := origins[id].From; from != "" {
			forks[from] = append(forks[from], id)
		}
	}
	return forks, err
}

// openedBy is the entry by which every opened session has opened. Only claims of drivers come before.
const openedBy = 16

// Started returns how a session began. It returns nil for a session that did not start, was deleted, or has
// an unreadable beginning.
func (c *Client) Started(ctx context.Context, id content.SessionID) (*events.RunStarted, error) {
	for rec, err := range c.journal.Read(ctx, id, 0) {
		if errors.Is(err, journal.ErrDamaged) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", id, err)
		}
		for _, ev := range rec.Entry.Events {
			if started, ok := ev.(events.RunStarted); ok {
				return &started, nil
			}
		}
		if rec.Err != nil || rec.Seq >= openedBy {
			break
		}
	}
	return nil, nil //nolint:nilnil // not known
}
