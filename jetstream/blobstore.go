package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Blobs keeps bytes for all who share the cell, under the SHA-256 of them. It is an
// output.Store. What is kept stays for as long as a message of the cell names it, and
// for a while longer: see Keeper.Collect.
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

// PutFrom keeps what src holds from its start, once, a piece at a time, and returns
// its name and its size. It reads src twice, and fails if the two differ.
func (b *Blobs) PutFrom(ctx context.Context, src io.ReadSeeker) (id string, size int64, err error) {
	sum := sha256.New()
	if _, err = src.Seek(0, io.SeekStart); err == nil {
		size, err = io.Copy(sum, src)
	}
	if err != nil {
		return "", 0, fmt.Errorf("put blob: %w", err)
	}
	digest := [sha256.Size]byte(sum.Sum(nil))
	return hex.EncodeToString(digest[:]), size, b.cell.storeBlob(ctx, digest, size, src)
}

// CopyTo writes what is kept under a name to w, a piece at a time; ok is false if there
// is nothing, or not what was kept. Only without an error and with ok is what was
// written what was kept.
func (b *Blobs) CopyTo(ctx context.Context, id string, w io.Writer) (ok bool, err error) {
	err = b.cell.copyBlob(ctx, id, w)
	if errors.Is(err, ErrBlobMissing) {
		return false, nil
	}
	return err == nil, err
}

// Get returns what is kept under a name, verified; ok is false if there is nothing, or
// not what was kept.
func (b *Blobs) Get(ctx context.Context, id string) (data []byte, ok bool, err error) {
	data, err = b.cell.getBlob(ctx, id, 0)
	if errors.Is(err, ErrBlobMissing) {
		return nil, false, nil
	}
	return data, err == nil, err
}
