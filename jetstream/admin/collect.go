package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/blob"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Collected is the result of a collection of blobs.
type Collected struct {
	Blobs   int    // stored blobs
	Removed int    // unreferenced blobs that were removed, or in a dry run would be
	Bytes   uint64 // size of the removed blobs
	Young   int    // unreferenced blobs within the grace period
	Parts   int    // blobs that were not stored or removed completely
}

// Collect removes the blobs that nothing has referenced for the grace period: neither a message of the cell
// names them, nor a payload that is itself a blob. A name counts anywhere, even in text. grace is how long
// a writer may take between storing a blob and naming it in a message. A dry run removes nothing.
func (c *Cell) Collect(ctx context.Context, grace time.Duration, dry bool) (Collected, error) {
	x := collection{cell: c, before: time.Now().Add(-grace), dry: dry, taken: make(map[string]bool)}
	err := x.mark(ctx)
	if err == nil {
		err = x.sweep(ctx)
	}
	if err != nil {
		return x.out, fmt.Errorf("collect blobs: %w", err)
	}
	return x.out, nil
}

// collection is one run of Collect: it marks the blobs that something references, and removes the
// rest.
type collection struct {
	cell   *Cell
	before time.Time // younger blobs stay
	dry    bool
	blobs  map[string]*kept
	taken  map[string]bool // chunks of blobs that stay, even if other blobs claim them
	out    Collected
}

// kept is a blob according to its descriptions.
type kept struct {
	name    string
	size    uint64
	chunks  []string // of each valid description
	first   uint64   // sequence of the first description
	last    uint64   // sequence of the last description
	at      time.Time
	retired bool // the last description retires it
	meta    blob.Meta
	renewed bool // the last description repeats the first valid one, which is meta
	live    bool // something references it
	read    bool // its content was searched for names
}

// blobMetas returns all blobs by name. It must not miss one, or its chunks would count as unused.
func (c *Cell) blobMetas(ctx context.Context) (map[string]*kept, error) {
	n := c.names
	out := make(map[string]*kept)
	for m, err := range c.api.All(ctx, n.BlobStream(), n.BlobMetas(), 0) {
		if err != nil {
			return nil, err
		}
		raw, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(m.Subject, n.BlobMetaPrefix()))
		if name := string(raw); err == nil && blob.IsName(name) {
			if out[name] == nil {
				out[name] = &kept{name: name, first: m.Seq}
			}
			out[name].note(m)
		}
	}
	return out, nil
}

// note adds the next description.
func (b *kept) note(m api.Message) {
	var meta blob.Meta
	b.last, b.at, b.renewed = m.Seq, m.Time, false
	if m.Spoofed || json.Unmarshal(m.Data, &meta) != nil {
		return
	}
	b.retired = meta.Deleted
	if !meta.Deleted && b.meta.Name == "" && meta.Name == b.name {
		b.meta = meta
	}
	b.renewed = !meta.Deleted && meta.Repeats(b.meta)
	if meta.Deleted || !content.IsToken(meta.NUID) || slices.Contains(b.chunks, meta.NUID) {
		return
	}
	if len(b.chunks) == 0 {
		b.size = meta.Size
	}
	b.chunks = append(b.chunks, meta.NUID)
}

// mark marks the blobs that messages name.
func (x *collection) mark(ctx context.Context) (err error) {
	if x.blobs, err = x.cell.blobMetas(ctx); err != nil {
		return err
	}
	for _, r := range x.cell.names.mayName() {
		read := x.cell.api.All
		if !r.config.AllowDirect {
			read = x.cell.api.AllFromLeader
		}
		for msg, err := range read(ctx, r.Stream, ">", 0) {
			if err == nil {
				err = x.message(ctx, r.Name, msg)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// mayName returns the streams whose messages may name blobs, in the order in which names move: schedules
// before the commands that they send, and journals last.
func (n names) mayName() []Row {
	on := []string{"SCHEDULES", "NAMED_SCHEDULES"}
	for _, h := range headers() {
		if h.name == layout.HeaderBlob {
			on = append(on, h.on...)
		}
	}
	rows := slices.DeleteFunc(Topology(n.NS, Config{}), func(r Row) bool { return !slices.Contains(on, r.Name) })
	order := map[string]int{"SCHEDULES": -1, "NAMED_SCHEDULES": -1, "JOURNAL": 1}
	slices.SortStableFunc(rows, func(a, b Row) int { return order[a.Name] - order[b.Name] })
	return rows
}

// message marks the blobs that a message names, and if its payload is a blob, those that the payload names.
// A snapshot names nothing that its journal does not.
func (x *collection) message(ctx context.Context, from string, msg api.Message) error {
	x.names(msg.Data)
	b := x.blobs[msg.Header.Get(layout.HeaderBlob)]
	if b == nil {
		return nil
	}
	b.live = true
	if b.read || from == "SNAPSHOTS" {
		return nil
	}
	b.read = true
	err := x.cell.blobs.CopyTo(ctx, b.name, &mentions{in: x})
	if errors.Is(err, blob.ErrMissing) {
		return nil // readers of the message get the error
	}
	return err
}

// mentions marks the blobs named in what is written to it. A payload may be of any size.
type mentions struct {
	in   *collection
	tail []byte // the end of what was written, shorter than a name
}

// Write never fails.
func (w *mentions) Write(p []byte) (int, error) {
	all := slices.Concat(w.tail, p)
	w.in.names(all)
	w.tail = all[max(0, len(all)-blob.NameLen+1):]
	return len(p), nil
}

// names marks the blobs that are named anywhere in data.
func (x *collection) names(data []byte) {
	for name := range blob.Names(data) {
		if b := x.blobs[string(name)]; b != nil {
			b.live = true
		}
	}
}

// sweep removes the blobs that are not marked.
func (x *collection) sweep(ctx context.Context) error {
	x.out.Blobs = len(x.blobs)
	for _, b := range x.blobs {
		for _, id := range b.chunks {
			x.taken[id] = x.taken[id] || b.live || x.isRecent(b)
		}
	}
	for _, b := range x.blobs {
		var err error
		switch {
		case b.live:
			err = x.dropDuplicates(ctx, b)
		case !x.isRecent(b):
			err = x.remove(ctx, b)
		case !b.retired:
			x.out.Young++
		}
		if err != nil {
			return err
		}
	}
	return x.parts(ctx)
}

func (x *collection) isRecent(b *kept) bool { return !b.at.Before(x.before) }

// purge deletes the messages on a subject before a sequence; 0 means all. In a dry run it does nothing.
func (x *collection) purge(ctx context.Context, subject string, before uint64) error {
	if x.dry {
		return nil
	}
	return x.cell.api.Purge(ctx, x.cell.names.BlobStream(), subject, before)
}

// dropDuplicates deletes repeated descriptions of a blob, except the last one. Anyone may have written the last one:
// if it differs, it would make the blob unreadable, so the first one stays, too.
func (x *collection) dropDuplicates(ctx context.Context, b *kept) error {
	if b.last == b.first || len(b.chunks) != 1 || !b.renewed {
		return nil
	}
	return x.purge(ctx, x.cell.names.BlobMeta(b.name), b.last)
}

func (x *collection) remove(ctx context.Context, b *kept) error {
	var chunks []string
	if !x.dry {
		var gone bool
		var err error
		if chunks, gone, err = x.cell.blobs.Retire(ctx, b.name, b.last); err != nil || !gone {
			return err
		}
	}
	x.out.Removed, x.out.Bytes = x.out.Removed+1, x.out.Bytes+b.size
	for _, id := range chunks {
		if content.IsToken(id) && !x.taken[id] {
			if err := x.purge(ctx, x.cell.names.BlobChunks(id), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// parts removes chunks that no description names: their writer was killed or lost a race, or a removal was
// interrupted.
func (x *collection) parts(ctx context.Context) error {
	n := x.cell.names
	subjects, err := x.cell.api.Subjects(ctx, n.BlobStream(), n.BlobChunks("*"))
	if err != nil {
		return err
	}
	for subject := range subjects {
		id := strings.TrimPrefix(subject, n.BlobChunks(""))
		if _, named := x.taken[id]; named || !content.IsToken(id) { // "*" would match all chunks
			continue
		}
		m, err := x.cell.api.Last(ctx, n.BlobStream(), subject)
		if errors.Is(err, api.ErrNoMessage) || err == nil && !m.Time.Before(x.before) {
			continue
		}
		if err == nil {
			x.out.Parts++
			err = x.purge(ctx, subject, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
