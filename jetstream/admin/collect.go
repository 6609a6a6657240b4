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
)

// Collected is the result of a collection of blobs.
type Collected struct {
	Blobs   int    // that were there
	Removed int    // that nothing references; with dry, that would be removed
	Bytes   uint64 // of the removed ones
	Young   int    // that nothing references, but that are within the grace period
	Parts   int    // of blobs that were not completely stored or removed
}

// Collect removes the blobs that nothing has referenced for the grace period: no message of the
// cell names them, and no payload that is a blob itself. A name counts anywhere, also in text.
// grace is how long a writer may take between storing a blob and naming it in a message. With dry
// nothing is removed.
func (c *Cell) Collect(ctx context.Context, grace time.Duration, dry bool) (Collected, error) {
	found, err := c.collect(ctx, time.Now().Add(-grace), dry)
	if err != nil {
		return found, fmt.Errorf("collect blobs: %w", err)
	}
	return found, nil
}

// kept is a blob according to its descriptions.
type kept struct {
	name    string
	size    uint64
	chunks  []string // of each description that counts
	first   uint64   // position of the first description
	last    uint64   // and of the last one
	at      time.Time
	retired bool // by the last description
	live    bool // something references it
	read    bool // as a payload
}

func (c *Cell) collect(ctx context.Context, before time.Time, dry bool) (Collected, error) {
	blobs, err := c.blobMetas(ctx)
	if err != nil {
		return Collected{}, err
	}
	m := marker{cell: c, blobs: blobs}
	if err := m.all(ctx); err != nil {
		return Collected{}, err
	}
	sw := sweep{cell: c, before: before, dry: dry, taken: make(map[string]bool)}
	for _, b := range blobs {
		if b.live || !b.at.Before(before) {
			for _, id := range b.chunks {
				sw.taken[id] = true
			}
		}
	}
	return sw.run(ctx, blobs)
}

// blobMetas returns all blobs by name: if one were missing, its chunks would count as unused.
func (c *Cell) blobMetas(ctx context.Context) (map[string]*kept, error) {
	n := c.names
	out := make(map[string]*kept)
	for m, err := range c.api.All(ctx, n.BlobStream(), n.BlobMetas(), 0) {
		if err != nil {
			return nil, err
		}
		raw, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(m.Subject, n.BlobMetaPrefix()))
		if name := string(raw); err == nil && len(name) == digestLen && !strings.ContainsFunc(name, notHex) {
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
	b.last, b.at = m.Seq, m.Time
	if m.Spoofed || json.Unmarshal(m.Data, &meta) != nil {
		return
	}
	b.retired = meta.Deleted
	if meta.Deleted || !content.IsToken(meta.NUID) || slices.Contains(b.chunks, meta.NUID) {
		return
	}
	if len(b.chunks) == 0 {
		b.size = meta.Size
	}
	b.chunks = append(b.chunks, meta.NUID)
}

// sweep removes the blobs that were not marked.
type sweep struct {
	cell   *Cell
	before time.Time // what is younger stays
	dry    bool
	taken  map[string]bool // chunks of blobs that stay, even if other blobs claim them
	out    Collected
}

func (c *sweep) run(ctx context.Context, blobs map[string]*kept) (Collected, error) {
	c.out.Blobs = len(blobs)
	for _, b := range blobs {
		var err error
		switch young := !b.at.Before(c.before); {
		case b.live:
			err = c.tidy(ctx, b)
		case young && !b.retired:
			c.out.Young++
		case !young:
			err = c.remove(ctx, b)
		}
		if err != nil {
			return c.out, err
		}
	}
	return c.out, c.parts(ctx, blobs)
}

// tidy deletes repeated descriptions of a blob.
func (c *sweep) tidy(ctx context.Context, b *kept) error {
	if b.last == b.first || len(b.chunks) != 1 || b.retired || c.dry {
		return nil
	}
	return c.cell.api.Purge(ctx, c.cell.names.BlobStream(), c.cell.names.BlobMeta(b.name), b.last)
}

func (c *sweep) remove(ctx context.Context, b *kept) error {
	if c.dry {
		c.out.Removed, c.out.Bytes = c.out.Removed+1, c.out.Bytes+b.size
		return nil
	}
	chunks, gone, err := c.cell.blobs.Retire(ctx, b.name, b.last)
	if err != nil || !gone {
		return err
	}
	c.out.Removed, c.out.Bytes = c.out.Removed+1, c.out.Bytes+b.size
	for _, id := range chunks {
		if content.IsToken(id) && !c.taken[id] {
			if err := c.cell.api.Purge(ctx, c.cell.names.BlobStream(), c.cell.names.BlobChunks(id), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// parts removes chunks that no description names: their writer was killed or lost a race, or a
// removal was interrupted.
func (c *sweep) parts(ctx context.Context, blobs map[string]*kept) error {
	n := c.cell.names
	subjects, err := c.cell.api.Subjects(ctx, n.BlobStream(), n.BlobChunks("*"))
	if err != nil {
		return err
	}
	named := make(map[string]bool)
	for _, b := range blobs {
		for _, id := range b.chunks {
			named[id] = true
		}
	}
	for subject := range subjects {
		id := strings.TrimPrefix(subject, n.BlobChunks(""))
		if named[id] {
			continue
		}
		m, err := c.cell.api.Last(ctx, n.BlobStream(), subject)
		if errors.Is(err, api.ErrNoMessage) || err == nil && !m.Time.Before(c.before) {
			continue
		}
		if err != nil {
			return err
		}
		c.out.Parts++
		if c.dry {
			continue
		}
		if err := c.cell.api.Purge(ctx, n.BlobStream(), subject, 0); err != nil {
			return err
		}
	}
	return nil
}
