package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// ErrNotDeleted is returned by Clear for a session without a tombstone. Delete it first.
var ErrNotDeleted = errors.New("session is not deleted")

// Delete appends the tombstone to a session, which is deleted from then on; Clear removes what is
// left of it. Delete returns journal.ErrConflict if last is no longer the last entry: the session
// was not deleted. It returns ErrNotProvisioned if the cell lacks something that Clear needs:
// nothing was changed.
func (c *Cell) Delete(ctx context.Context, last journal.Record, d events.SessionDeleted) (events.Deletion, error) {
	s := last.Entry.Session
	if err := c.tryPurges(ctx); err != nil {
		return events.Deletion{}, fmt.Errorf("delete %s: %w", s, err)
	}
	e := events.Entry{
		Session: s, Cause: "delete/" + rand.Text(), At: max(content.TimeOf(time.Now()), last.Entry.At),
		Epoch: last.Entry.Epoch, Events: []events.Event{d},
	}
	if _, err := c.cell.Journal().Append(ctx, last.Head, e); err != nil {
		return events.Deletion{}, fmt.Errorf("delete %s: %w", s, err)
	}
	e.Seq, e.Prev = last.Seq+1, last.Hash
	done, _ := events.DeletionOf(e)
	return done, nil
}

// Clear removes what is left of a deleted session: its commands, timers, calls, run token,
// snapshot and notes, and last its entries except the tombstone. An interrupted Clear can be
// repeated. Blobs that only this session referenced are left to Collect. Clear returns the number
// of entries that it removed.
func (c *Cell) Clear(ctx context.Context, s content.SessionID) (entries uint64, err error) {
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
	if err := c.clearBeside(ctx, s); err != nil {
		return 0, err
	}
	stream, subject := c.names.JournalStream(), c.names.Journal(s)
	there, err := c.api.Subjects(ctx, stream, subject)
	if err != nil {
		return 0, err
	}
	return there[subject] - 1, c.api.Purge(ctx, stream, subject, last.Guard)
}

// tryPurges purges a subject without messages from every stream that Clear purges. It verifies
// that they exist with no permissions beyond those of Clear.
func (c *Cell) tryPurges(ctx context.Context) error {
	return api.ForEach(c.names.keeps(), func(stream string) error {
		return c.api.Purge(ctx, stream, c.names.NS+".nothing", 0)
	})
}

// Unlist removes deleted sessions from the lists of pending approvals and dead letters, where a
// driver that the tombstone fenced may have noted one. It returns the number of removed notes.
func (c *Cell) Unlist(ctx context.Context) (notes int, err error) {
	for _, l := range []struct {
		bucket layout.Bucket
		of     string
	}{{c.names.Approvals(), "approvals"}, {c.names.Dead(), "dead letters"}} {
		n, err := c.unlist(ctx, l.bucket)
		if notes += n; err != nil {
			return notes, fmt.Errorf("look through %s: %w", l.of, err)
		}
	}
	return notes, nil
}

func (c *Cell) unlist(ctx context.Context, b layout.Bucket) (notes int, err error) {
	all, err := c.api.Subjects(ctx, b.Stream(), b.Key("*"))
	if err != nil {
		return 0, err
	}
	for subject := range all {
		last, err := c.cell.Journal().Last(ctx, content.SessionID(strings.TrimPrefix(subject, b.Key(""))))
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return notes, err
		}
		if _, deleted := events.DeletionOf(last.Entry); err != nil || !deleted {
			continue
		}
		if err := c.api.Purge(ctx, b.Stream(), subject, 0); err != nil {
			return notes, err
		}
		notes++
	}
	return notes, nil
}

// clearBeside removes everything about a session except its journal: all subjects in the table
// that name a session.
func (c *Cell) clearBeside(ctx context.Context, s content.SessionID) error {
	n := c.names
	streams := make(map[string]string)
	for _, r := range Topology(n.NS, Config{}) {
		streams[r.Name] = r.Stream
	}
	for _, row := range Subjects(n.NS) {
		if row.Kept == "" || row.Kept == "JOURNAL" || !strings.Contains(row.Subject, "<session>") {
			continue
		}
		subject := wildcard(strings.ReplaceAll(row.Subject, "<session>", string(s)), RoleKeeper, "")
		if err := c.api.Purge(ctx, streams[row.Kept], subject, 0); err != nil {
			return err
		}
	}
	return nil
}

// Holding is what the cell stores of one session.
type Holding struct {
	Session content.SessionID
	Entries uint64
	Bytes   uint64    // of the entries, including those that are blobs
	Changed time.Time // when the last entry was written, by the server's clock
	Deleted bool      // the last entry is the tombstone
}

// Holdings returns what the cell stores, in the order in which sessions last changed. It reads the
// whole journal stream once, but no blobs.
func (c *Cell) Holdings(ctx context.Context) ([]Holding, error) {
	blobs, err := c.blobMetas(ctx)
	if err != nil {
		return nil, fmt.Errorf("list what is kept: %w", err)
	}
	n := c.names
	all := make(map[content.SessionID]*Holding)
	for m, err := range c.api.All(ctx, n.JournalStream(), n.AllJournals(), 0) {
		if err != nil {
			return nil, fmt.Errorf("list what is kept: %w", err)
		}
		s := n.SessionOf(m.Subject)
		h := all[s]
		if h == nil {
			h = &Holding{Session: s}
			all[s] = h
		}
		h.Entries++
		h.Changed, h.Bytes = m.Time, h.Bytes+uint64(len(m.Data))
		if b := blobs[m.Header.Get(layout.HeaderBlob)]; b != nil {
			h.Bytes += b.size
		}
		h.Deleted = m.Header.Get(layout.HeaderKinds) == string(events.KindSessionDeleted)
	}
	out := make([]Holding, 0, len(all))
	for _, h := range all {
		out = append(out, *h)
	}
	slices.SortFunc(out, func(a, b Holding) int {
		if c := a.Changed.Compare(b.Changed); c != 0 {
			return c
		}
		return strings.Compare(string(a.Session), string(b.Session))
	})
	return out, nil
}
