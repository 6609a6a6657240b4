package jetstream

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
)

// ErrNotDeleted is returned by Clear for a session without a tombstone. Delete it
// first.
var ErrNotDeleted = errors.New("session is not deleted")

// Keeper deletes sessions, and collects blobs that nothing refers to. Each of its
// steps may be the last one before it is killed: what was begun is finished by doing
// it again.
type Keeper struct {
	cell *Cell
}

// Keeper returns the cell's.
func (c *Cell) Keeper() *Keeper { return &Keeper{c} }

// Delete writes the tombstone behind the last entry of a session. From then on the
// session is deleted, whatever becomes of what is left of it, which Clear removes. It
// returns journal.ErrConflict if last is not the last entry any more: the session goes
// on, and was not deleted; and ErrNotProvisioned if the cell lacks something that Clear
// needs: nothing was changed.
func (k *Keeper) Delete(ctx context.Context, last journal.Record, d events.SessionDeleted) (events.Deletion, error) {
	s := last.Entry.Session
	if err := k.check(ctx); err != nil {
		return events.Deletion{}, fmt.Errorf("delete %s: %w", s, err)
	}
	e := events.Entry{
		Session: s, Cause: "delete/" + rand.Text(), At: max(content.TimeOf(time.Now()), last.Entry.At),
		Epoch: last.Entry.Epoch, Events: []events.Event{d},
	}
	if _, err := k.cell.Journal().Append(ctx, last.Head, e); err != nil {
		return events.Deletion{}, fmt.Errorf("delete %s: %w", s, err)
	}
	e.Seq, e.Prev = last.Seq+1, last.Hash
	done, _ := events.DeletionOf(e)
	return done, nil
}

// Clear removes what is left of a session that was deleted: its commands, timers,
// calls, run token, snapshot and notes, and at last its entries but for the tombstone.
// With nothing left it does nothing. The blobs that only this session referred to are
// left to Collect. It returns the number of entries that it removed.
func (k *Keeper) Clear(ctx context.Context, s content.SessionID) (entries uint64, err error) {
	if entries, err = k.clear(ctx, s); err != nil {
		return 0, fmt.Errorf("clear %s: %w", s, err)
	}
	return entries, nil
}

func (k *Keeper) clear(ctx context.Context, s content.SessionID) (uint64, error) {
	last, err := k.cell.Journal().Last(ctx, s)
	if err != nil {
		return 0, err
	}
	if _, deleted := events.DeletionOf(last.Entry); !deleted {
		return 0, ErrNotDeleted
	}
	if err := k.clearBeside(ctx, s); err != nil {
		return 0, err
	}
	stream, subject := k.cell.names.journalStream(), k.cell.names.journal(s)
	there, err := k.cell.subjects(ctx, stream, subject)
	if err != nil {
		return 0, err
	}
	return there[subject] - 1, k.cell.purge(ctx, stream, subject, last.Guard)
}

// check tries to remove what is not there from wherever something is to be removed. So
// it needs no other permissions.
func (k *Keeper) check(ctx context.Context) error {
	return together(k.cell.names.keeps(), func(stream string) error {
		return k.cell.purge(ctx, stream, k.cell.names.ns+".nothing", 0)
	})
}

// Unlist takes sessions that are deleted off the lists of what waits for a person. A
// driver which the tombstone fenced may have noted one behind its back. It returns how
// many notes there were.
func (k *Keeper) Unlist(ctx context.Context) (notes int, err error) {
	for _, l := range []*List{k.cell.Approvals(), k.cell.DeadLetters()} {
		all, err := k.cell.subjects(ctx, kvStream(l.bucket), kvKey(l.bucket, "*"))
		if err != nil {
			return notes, fmt.Errorf("look through %s: %w", l.of, err)
		}
		for subject := range all {
			last, err := k.cell.Journal().Last(ctx, content.SessionID(strings.TrimPrefix(subject, kvKey(l.bucket, ""))))
			if err != nil && !errors.Is(err, journal.ErrNotFound) {
				return notes, fmt.Errorf("look through %s: %w", l.of, err)
			}
			if _, deleted := events.DeletionOf(last.Entry); err != nil || !deleted {
				continue
			}
			if err := k.cell.purge(ctx, kvStream(l.bucket), subject, 0); err != nil {
				return notes, fmt.Errorf("look through %s: %w", l.of, err)
			}
			notes++
		}
	}
	return notes, nil
}

// clearBeside removes what the cell keeps of a session beside its journal: whatever
// the table of subjects names after it.
func (k *Keeper) clearBeside(ctx context.Context, s content.SessionID) error {
	n := k.cell.names
	streams := make(map[string]string)
	for _, r := range Topology(n.ns, Config{}) {
		streams[r.Name] = r.Stream
	}
	for _, row := range Subjects(n.ns) {
		if row.Kept == "" || row.Kept == "JOURNAL" || !strings.Contains(row.Subject, "<session>") {
			continue
		}
		subject := wildcard(strings.ReplaceAll(row.Subject, "<session>", string(s)), RoleKeeper, "")
		if err := k.cell.purge(ctx, streams[row.Kept], subject, 0); err != nil {
			return err
		}
	}
	return nil
}

// Holding is what the cell holds of one session.
type Holding struct {
	Session content.SessionID
	Entries uint64
	Bytes   uint64    // of the entries, with those that are blobs
	Changed time.Time // when the last entry was written, by the server's clock
	Deleted bool      // the last entry is the tombstone
}

// Holdings lists what the cell holds, in the order in which sessions were last
// changed. It reads the whole journal stream once, but no blobs.
func (k *Keeper) Holdings(ctx context.Context) ([]Holding, error) {
	blobs, err := k.blobs(ctx)
	if err != nil {
		return nil, fmt.Errorf("list what is kept: %w", err)
	}
	n := k.cell.names
	all := make(map[content.SessionID]*Holding)
	for m, err := range k.cell.readAll(ctx, n.journalStream(), n.allJournals(), 0) {
		if err != nil {
			return nil, fmt.Errorf("list what is kept: %w", err)
		}
		s := n.sessionOf(m.Subject)
		h := all[s]
		if h == nil {
			h = &Holding{Session: s}
			all[s] = h
		}
		h.Entries++
		h.Changed, h.Bytes = m.Time, h.Bytes+uint64(len(m.Data))
		if b := blobs[m.Header.Get(headerBlob)]; b != nil {
			h.Bytes += b.size
		}
		h.Deleted = m.Header.Get(headerKinds) == string(events.KindSessionDeleted)
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
