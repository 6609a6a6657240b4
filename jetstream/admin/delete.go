package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/seals"
	"github.com/turnlog/turnlog/jetstream/tombstones"
)

// ErrNotDeleted is returned by Clear for a session without a tombstone. Delete it first.
var ErrNotDeleted = errors.New("session is not deleted")

// Delete appends the tombstone to a session, which is then deleted; Clear removes its data. A named user
// asks a node to do it; if none answers, Delete returns tombstones.ErrNoNode. It returns
// journal.ErrConflict if last is no longer the last entry, and ErrNotProvisioned if the cell lacks a stream
// that Clear needs. After each of these errors the session is unchanged.
func (c *Cell) Delete(ctx context.Context, last journal.Record, d events.SessionDeleted) (events.Deletion, error) {
	err := c.tryPurges(ctx)
	if err == nil {
		var done events.Deletion
		if done, err = tombstones.Write(ctx, c.cell, last, d); err == nil {
			return done, nil
		}
	}
	return events.Deletion{}, fmt.Errorf("delete %s: %w", last.Entry.Session, err)
}

// tryPurges purges an unused subject from every stream that Clear purges. That verifies that the streams
// exist, and needs no permissions beyond those of Clear.
func (c *Cell) tryPurges(ctx context.Context) error {
	return cmp.Or(api.Together(c.names.purged(), func(stream string) error { //nolint:wrapcheck // the errors are our own
		return c.api.Purge(ctx, stream, c.names.NS+".nothing", 0)
	})...)
}

// Clear removes the data of a deleted session: its commands, timers, calls, run token, snapshot and notes,
// and last its entries except the tombstone. An interrupted Clear can be repeated. Collect removes the
// blobs that only this session referenced. Clear returns the number of entries that it removed.
func (c *Cell) Clear(ctx context.Context, s content.SessionID) (entries uint64, err error) {
	if !content.IsToken(string(s)) {
		return 0, fmt.Errorf("clear %q: %w", s, content.ErrBadID)
	}
	if entries, err = c.clear(ctx, s); err != nil {
		return 0, fmt.Errorf("clear %s: %w", s, err)
	}
	return entries, nil
}

func (c *Cell) clear(ctx context.Context, s content.SessionID) (uint64, error) {
	last, err := c.cell.Journal().Last(ctx, s)
	if err != nil {
		return 0, err
	}
	if _, deleted := events.DeletionOf(last.Entry); !deleted {
		return 0, ErrNotDeleted
	}
	if err := c.clearExceptJournal(ctx, s); err != nil {
		return 0, err
	}
	return c.clearJournal(ctx, last)
}

// clearJournal removes the entries of a session except the last one.
func (c *Cell) clearJournal(ctx context.Context, last journal.Record) (uint64, error) {
	stream, subject := c.names.JournalStream(), c.names.Journal(last.Entry.Session)
	there, err := c.api.Subjects(ctx, stream, subject)
	if err != nil {
		return 0, err
	}
	return there[subject] - 1, c.api.Purge(ctx, stream, subject, last.Guard)
}

// ClearMoved is Clear for a session that was moved away with this tombstone, and may come back at any time.
// It removes only what was there while the tombstone was the last entry. It also needs the permissions of a
// driver.
func (c *Cell) ClearMoved(ctx context.Context, s content.SessionID, tombstone events.Hash) (uint64, error) {
	entries, err := c.clearMoved(ctx, s, tombstone)
	if err != nil {
		return 0, fmt.Errorf("clear %s: %w", s, err)
	}
	return entries, nil
}

func (c *Cell) clearMoved(ctx context.Context, s content.SessionID, tombstone events.Hash) (uint64, error) {
	keys := seals.Of(c.cell)
	wrapped, err := keys.Wrapped(ctx, s)
	if err != nil {
		return 0, err
	}
	ends := map[string]uint64{}
	for _, row := range c.names.ofSessions() {
		end, err := c.api.End(ctx, c.names.stream(row.Kept))
		if err != nil {
			return 0, err
		}
		ends[row.Kept] = end.Last + 1
	}
	last, err := c.cell.Journal().Last(ctx, s)
	if err == nil && last.Hash != tombstone {
		err = ErrNotDeleted
	}
	if err == nil {
		err = keys.DestroyThese(ctx, s, wrapped)
	}
	if err == nil {
		err = c.purgeSession(ctx, s, ends)
	}
	if err != nil {
		return 0, err
	}
	return c.clearJournal(ctx, last)
}

// Erase makes the content of a session unreadable whose tombstone says that it is erased. It destroys the
// session's key, and removes its commands, timers, calls, run token and snapshot. The entries stay, sealed.
// An interrupted Erase can be repeated. It also erases a session that never started. It returns
// ErrNotDeleted for a session without a tombstone.
func (c *Cell) Erase(ctx context.Context, s content.SessionID) error {
	last, err := c.cell.Journal().Last(ctx, s)
	if _, deleted := events.DeletionOf(last.Entry); err == nil && !deleted {
		err = ErrNotDeleted
	}
	if err == nil || errors.Is(err, journal.ErrNotFound) {
		err = c.clearExceptJournal(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("erase %s: %w", s, err)
	}
	return nil
}

// clearExceptJournal destroys the key of a sealed session first, since a purge would not overwrite its
// bytes.
func (c *Cell) clearExceptJournal(ctx context.Context, s content.SessionID) error {
	if err := seals.Of(c.cell).Destroy(ctx, s); err != nil {
		return err
	}
	return c.purgeSession(ctx, s, nil)
}

// purgeSession purges a session's data, except its journal, from all streams up to their ends; nil:
// everything.
func (c *Cell) purgeSession(ctx context.Context, s content.SessionID, ends map[string]uint64) error {
	for _, row := range c.names.ofSessions() {
		if row.Kept == "JOURNAL" {
			continue
		}
		subject := wildcard(strings.ReplaceAll(row.Subject, "<session>", string(s)), RoleKeeper, "")
		if err := c.api.Purge(ctx, c.names.stream(row.Kept), subject, ends[row.Kept]); err != nil {
			return err
		}
	}
	return nil
}

// ofSessions returns the stored subjects that include a session.
func (n names) ofSessions() []SubjectRow {
	return slices.DeleteFunc(Subjects(n.NS), func(r SubjectRow) bool {
		return r.Kept == "" || !strings.Contains(r.Subject, "<session>")
	})
}

// purged returns the streams with data of sessions, and the stream of blobs.
func (n names) purged() []string {
	out := []string{n.BlobStream()}
	for _, row := range n.ofSessions() {
		out = append(out, n.stream(row.Kept))
	}
	return sortUnique(out)
}

// Unlist removes deleted sessions from the lists of pending approvals and dead letters, where a replaced
// driver may have put them. It returns the number of removed notes.
func (c *Cell) Unlist(ctx context.Context) (notes int, err error) {
	for _, b := range []layout.Bucket{c.names.Approvals(), c.names.Dead()} {
		all, err := c.api.Subjects(ctx, b.Stream(), b.Key(">"))
		if err != nil {
			return notes, fmt.Errorf("list %s: %w", b, err)
		}
		for subject := range all {
			session := strings.TrimPrefix(strings.TrimPrefix(subject, b.Key("")), layout.TrialKeys)
			if !content.IsToken(session) {
				continue
			}
			last, err := c.cell.Journal().Last(ctx, content.SessionID(session))
			if errors.Is(err, journal.ErrNotFound) {
				continue
			}
			_, deleted := events.DeletionOf(last.Entry)
			if err == nil && deleted {
				err = c.api.Purge(ctx, b.Stream(), subject, 0)
				notes++
			}
			if err != nil {
				return notes, fmt.Errorf("remove notes of %s: %w", b, err)
			}
		}
	}
	return notes, nil
}

// Holding describes the stored entries of one session.
type Holding struct {
	Session content.SessionID
	Entries uint64
	Bytes   uint64    // of the entries, including those that are blobs
	Changed time.Time // when the last entry was written, by the server's clock
	Deleted bool      // the last entry is the tombstone
	Erased  bool      // the session is erased: the other entries stay, and only their content is gone
}

// Holdings returns the stored entries of all sessions, ordered by when the sessions last changed. It reads
// the whole journal stream once, but no blobs.
func (c *Cell) Holdings(ctx context.Context) ([]Holding, error) {
	blobs, err := c.blobMetas(ctx)
	if err != nil {
		return nil, fmt.Errorf("list holdings: %w", err)
	}
	n := c.names
	all := make(map[content.SessionID]Holding)
	for m, err := range c.api.All(ctx, n.JournalStream(), n.Journal(layout.AllSessions), 0) {
		if err != nil {
			return nil, fmt.Errorf("list holdings: %w", err)
		}
		session := n.SessionOf(m.Subject)
		if session == "" {
			continue
		}
		h := all[session]
		h.Session, h.Changed = session, m.Time
		h.Entries, h.Bytes = h.Entries+1, h.Bytes+uint64(len(m.Data))
		if b := blobs[m.Header.Get(layout.HeaderBlob)]; b != nil {
			h.Bytes += b.size
		}
		if h.Deleted = m.Header.Get(layout.HeaderKinds) == string(events.KindSessionDeleted); h.Deleted {
			e, _ := events.Decode(m.Data) // an unreadable entry is not an erasure
			d, _ := events.DeletionOf(e)
			h.Erased = d.Erased
		}
		all[h.Session] = h
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Holding) int {
		return cmp.Or(a.Changed.Compare(b.Changed), cmp.Compare(a.Session, b.Session))
	}), nil
}
