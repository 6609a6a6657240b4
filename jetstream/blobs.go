package jetstream

import (
	"context"
	"errors"
	"io"

	"github.com/turnlog/turnlog/jetstream/internal/blob"
)

// Blobs keeps large payloads for all users of the cell, named by their SHA-256. It implements tool.Store. A
// blob stays while a message of the cell names it, plus a grace period; see admin's Collect.
type Blobs struct {
	store *blob.Store
}

// Blobs returns the cell's blobs.
func (c *Cell) Blobs() *Blobs { return &Blobs{c.blobs} }

// Renew keeps the blobs that data names for another grace period. Call it before copying names of blobs to
// a new message.
func (b *Blobs) Renew(ctx context.Context, data []byte) error { return b.store.Renew(ctx, data) }

// PutFrom stores the content of src from its start, unless it is there, and returns its name and size.
// It reads src twice and fails if the content changes.
func (b *Blobs) PutFrom(ctx context.Context, src io.ReadSeeker) (id string, size int64, err error) {
	return b.store.PutFrom(ctx, src)
}

// CopyTo writes a blob to w, a chunk at a time. ok is false if the blob is missing or damaged. Discard
// what was written unless ok is true and there is no error.
func (b *Blobs) CopyTo(ctx context.Context, id string, w io.Writer) (ok bool, err error) {
	return found(b.store.CopyTo(ctx, id, w))
}

// Get returns a verified blob. ok is false if it is missing or damaged.
func (b *Blobs) Get(ctx context.Context, id string) (data []byte, ok bool, err error) {
	data, err = b.store.Get(ctx, id, 0)
	ok, err = found(err)
	return data, ok, err
}

func found(err error) (bool, error) {
	if errors.Is(err, ErrBlobMissing) {
		return false, nil
	}
	return err == nil, err
}
