package report

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/loop"
)

const (
	// pageFormat rises whenever the Summary or the account of the same session would differ.
	pageFormat = 1

	// pageSize bounds the bytes of rows in a page, and of one row. A row has about 250 bytes, compressed about rowSize.
	pageSize = 256 << 10
	rowSize  = 100

	// keepEvery is about how long it takes until a change is in a page. keepFirst bounds the wait of a node that has just started.
	keepEvery = time.Minute
	keepFirst = 2 * time.Second

	// keepWhole is how often a node reads all pages, in case some were removed. It is also how long nodes of this release do not touch
	// the list after a later release has written a page.
	keepWhole = time.Hour

	// keepAtOnce is how many entries are read for a set of pages.
	keepAtOnce = 10_000

	// mostAdded is how many bytes more than the complete set the later sets may have before all are merged.
	mostAdded = 1 << 20
)

// page is a part of a set in the cell. A set has a row of each session with an entry in a part of the journal, as the session was then or later.
type page struct {
	Format int            `msgpack:"f"`
	Set    string         `msgpack:"s"`
	Part   int            `msgpack:"p"`
	Parts  int            `msgpack:"n"`
	From   client.Changes `msgpack:"b"` // after which its part of the journal begins; zero: it replaces all sets before
	At     client.Changes `msgpack:"a"` // which it includes
	Gone   bool           `msgpack:"g,omitempty"`
	Rows   []byte         `msgpack:"r"` // see keptRow.append; compressed
}

// folded is the content of all pages, in the order in which they were added. A set counts once all its parts are there and it begins where
// the previous one ended. So a writer that stops or is late does no harm.
type folded struct {
	seq         uint64         // of the last page
	at          client.Changes // through which the journal was read
	last        string         // set that counts
	base, added int            // sizes of the set that is complete, and of those since
	gone        bool           // rows have sessions that were deleted since
	newer       time.Time      // of the last page of a later release
	sets        map[string][]page
	rows        [][]byte
}

// read reads the pages that were added since.
func (f *folded) read(ctx context.Context, c *client.Client) error {
	for m, err := range c.Pages().After(ctx, f.seq) {
		if err != nil {
			return err
		}
		var p page
		if f.seq = m.Seq; wire.Unmarshal(m.Data, wire.Snapshot, &p) == nil {
			f.fold(p, m.At)
		}
	}
	return nil
}

// fold adds a page that was stored at a time.
func (f *folded) fold(p page, at time.Time) {
	if p.Format > pageFormat {
		f.newer = at
	}
	if p.Format != pageFormat {
		return
	}
	if f.sets == nil {
		f.sets = make(map[string][]page)
	}
	parts := f.sets[p.Set]
	if p.Part != len(parts) {
		return // it was sent again
	}
	parts = append(parts, p)
	f.sets[p.Set] = parts
	if len(parts) < p.Parts {
		return
	}
	delete(f.sets, p.Set)
	switch p.From {
	case client.Changes{}:
		f.base, f.added, f.gone, f.rows = 0, 0, false, nil
	case f.at:
	default:
		for _, part := range parts {
			f.added += len(part.Rows) // until all sets are merged
		}
		return
	}
	f.at, f.last, f.gone = p.At, p.Set, f.gone || p.Gone
	for _, part := range parts {
		f.rows = append(f.rows, part.Rows)
		if f.added += len(part.Rows); p.From == (client.Changes{}) {
			f.base, f.added = f.base+len(part.Rows), 0
		}
	}
}

// each decodes the rows, and passes them on. The last one of a session counts.
func each(rows [][]byte, use func(keptRow)) error {
	var raw []byte
	for _, packed := range rows {
		n, err := s2.DecodedLen(packed)
		if err != nil || n > 2*pageSize {
			return errRow
		}
		if raw, err = s2.Decode(raw[:cap(raw)], packed); err != nil {
			return fmt.Errorf("%w: %w", errRow, err)
		}
		for text, at := string(raw), 0; at < len(raw); {
			var r keptRow
			if at, err = r.next(text, raw, at); err != nil {
				return err
			}
			use(r)
		}
	}
	return nil
}

// load reads the pages of the cell, if they match its journal.
func (x *Index) load(ctx context.Context, c *client.Client) error {
	var f folded
	if err := f.read(ctx, c); err != nil {
		return err
	}
	if held, err := f.at.Hold(ctx, c); err != nil || !held {
		return err
	}
	rows, unread := make(map[content.SessionID]indexed, (f.base+f.added)/rowSize), make(map[content.SessionID]bool)
	err := each(f.rows, func(r keptRow) {
		if r.kind == rowUnread {
			unread[r.Session] = true
			delete(rows, r.Session)
			return
		}
		rows[r.Session] = r.indexed()
		if len(unread) > 0 {
			delete(unread, r.Session)
		}
	})
	if err != nil {
		return fmt.Errorf("list of sessions: %w", err)
	}
	x.changes, x.rows, x.unread = f.at, rows, nil
	for id := range unread {
		x.unread = append(x.unread, id)
	}
	x.spent.mu.Lock()
	defer x.spent.mu.Unlock()
	x.spent.at, x.spent.kept = f.at, f.rows
	return nil
}

// keeper keeps the list of a cell.
type keeper struct {
	folded

	c     *client.Client
	mine  string    // the set that it wrote last
	whole time.Time // when it began with the first page
	ahead bool      // it has reported that a later release keeps the list
}

// Keep keeps what lists show of the sessions in their cell, until ctx ends. Any number of nodes may call Keep: one of them writes until another one
// does. Of sealed sessions, only the usage is kept. Titles of other sessions are stored in the clear, and removed about a minute after their
// sessions.
func Keep(ctx context.Context, c *client.Client, complain func(error)) {
	k := keeper{c: c}
	for wait := rand.N(keepFirst); pause.For(ctx, wait); wait = keepEvery/2 + rand.N(keepEvery) { //nolint:gosec // no secret
		if err := k.keep(ctx); err != nil && ctx.Err() == nil {
			complain(fmt.Errorf("keep the list of sessions: %w", err))
		}
	}
}

// keep adds what is new in the journal.
func (k *keeper) keep(ctx context.Context) error {
	if time.Since(k.whole) > keepWhole {
		k.folded, k.whole = folded{last: k.last}, time.Now()
	}
	for more := true; ; {
		before := k.last
		if err := k.read(ctx, k.c); err != nil {
			return err
		}
		_, bad := accountsOf(k.rows)
		k.rows = nil
		known := k.ahead
		k.ahead = time.Since(k.newer) < keepWhole
		switch {
		case k.ahead: // it may remove the pages of this one
			k.folded = folded{seq: k.seq, last: k.last, newer: k.newer}
			if known {
				return nil
			}
			return errAhead
		case bad != nil:
			return k.discard(ctx, bad)
		case k.last != before && k.last != k.mine:
			return nil
		}
		if !more {
			break
		}
		at := k.at
		held, err := at.Hold(ctx, k.c)
		if err == nil && !held {
			at = client.Changes{}
		}
		if err == nil {
			more, err = k.add(ctx, at)
		}
		if err != nil {
			return err
		}
	}
	if k.gone || k.added > k.base+mostAdded {
		return k.merge(ctx)
	}
	return nil
}

// discard removes all pages, because one of them cannot be read. The next round starts over.
func (k *keeper) discard(ctx context.Context, why error) error {
	end := k.seq + 1
	k.folded = folded{last: k.last}
	return errors.Join(fmt.Errorf("all pages are made again: %w", why), k.c.Pages().DropBefore(ctx, end))
}

// add writes a set of the entries after a place, and reports whether there are more.
func (k *keeper) add(ctx context.Context, after client.Changes) (more bool, err error) {
	from, gone := after, false
	spent, entries := make(map[content.SessionID]*account), 0
	for rec, err := range after.Entries(ctx, k.c) {
		if err != nil {
			return false, err
		}
		if more = entries == keepAtOnce; more {
			break
		}
		entries++
		id := rec.Entry.Session
		a := spent[id]
		if a == nil {
			a = new(account)
			spent[id] = a
		}
		if _, deleted := events.DeletionOf(rec.Entry); deleted {
			*a, gone = account{Fresh: true}, true
		} else if rec.Err != nil {
			a.Seq, a.Partial = rec.Seq, true
		} else {
			a.count(rec.Entry)
		}
	}
	if entries == 0 {
		return false, nil
	}
	ids, rows := make([]content.SessionID, 0, len(spent)), make(map[content.SessionID]keptRow, len(spent))
	for id, a := range spent {
		ids = append(ids, id)
		rows[id] = keptRow{Summary: Summary{Session: id}, kind: rowUnread, spent: a.encode()}
	}
	err = eachOf(ctx, k.c, ids, func(error) {}, func(i int, state *loop.State, head journal.Head) {
		if state.Deleted == nil {
			if sealed, err := k.c.IsSealed(ctx, ids[i]); err != nil || sealed { // pages would outlive its key
				return
			}
		}
		rows[ids[i]] = rowFrom(ids[i], rowOf(state, head), rows[ids[i]].spent)
	})
	if err != nil {
		return false, err
	}
	_, err = k.write(ctx, page{From: from, At: after, Gone: gone}, packed(maps.Values(rows)))
	return more, err
}

// merge replaces all sets with one.
func (k *keeper) merge(ctx context.Context) error {
	var all folded
	if err := all.read(ctx, k.c); err != nil {
		return err
	}
	if all.newer.After(k.newer) || len(all.rows) == 0 { // of a later release, or removed: look again from the first page
		k.whole = time.Time{}
		return nil
	}
	pages, err := merged(all.rows)
	if err != nil {
		return err
	}
	first, err := k.write(ctx, page{At: all.at}, pages)
	if err != nil {
		return err
	}
	return k.c.Pages().DropBefore(ctx, first)
}

// merged returns one row for each session.
func merged(rows [][]byte) ([][]byte, error) {
	spent, err := accountsOf(rows)
	last := make(map[content.SessionID][]byte) // a keptRow would keep its whole page in memory
	err = errors.Join(err, each(rows, func(r keptRow) {
		id := content.SessionID(strings.Clone(string(r.Session)))
		r.spent = ""
		last[id] = r.append(last[id][:0])
	}))
	pages := packed(func(yield func(keptRow) bool) {
		for id, raw := range last {
			var r keptRow
			_, bad := r.next(string(raw), raw, 0)
			err = errors.Join(err, bad)
			if r.spent = spent[id].encode(); !yield(r) {
				return
			}
		}
	})
	return pages, err
}

// packed returns rows, page by page.
func packed(rows iter.Seq[keptRow]) (parts [][]byte) {
	var raw, room []byte
	end := func() {
		room = s2.Encode(room[:cap(room)], raw)
		parts, raw = append(parts, bytes.Clone(room)), raw[:0]
	}
	for r := range rows {
		before := len(raw)
		if raw = r.append(raw); len(raw)-before > pageSize { // lists would refuse the page
			r = r.unread()
			raw = r.append(raw[:before])
		}
		if len(raw) >= pageSize {
			end()
		}
	}
	if len(raw) > 0 {
		end()
	}
	return parts
}

// write adds the pages of a set, and returns the place of the first one.
func (k *keeper) write(ctx context.Context, p page, parts [][]byte) (first uint64, err error) {
	p.Format, p.Set, p.Parts = pageFormat, ulid.Make().String(), len(parts)
	for p.Part, p.Rows = range parts {
		data, err := wire.Marshal(&p, wire.Snapshot)
		if err != nil {
			return 0, fmt.Errorf("page: %w", err)
		}
		seq, err := k.c.Pages().Add(ctx, data)
		if err != nil {
			return 0, err
		}
		first = cmp.Or(first, seq)
	}
	k.mine = p.Set
	return first, nil
}

var (
	// errRow is returned for rows that keptRow.append did not write.
	errRow = errors.New("not a row")

	errAhead = errors.New("a later release maintains it, so lists of this release read all sessions; nodes of this release resume an hour after its last page")
)
