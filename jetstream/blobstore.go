package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Blobs keeps bytes for all who share the cell, under the SHA-256 of them. It is an
// output.Store. What is kept stays for as long as the cell does.
type Blobs struct {
	cell *Cell
}

// Blobs returns the cell's blobs.
func (c *Cell) Blobs() *Blobs { return &Blobs{c} }

// Put keeps data, once, and returns its name.
func (b *Blobs) Put(ctx context.Context, data []byte) (id string, err error) {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), b.cell.putBlob(ctx, sum, data)
}

// Get returns what is kept under a name, verified; ok is false if there is nothing, or
// not what was kept.
func (b *Blobs) Get(ctx context.Context, id string) (data []byte, ok bool, err error) {
	data, err = b.cell.getBlob(ctx, id)
	if errors.Is(err, ErrBlobMissing) {
		return nil, false, nil
	}
	return data, err == nil, err
}
