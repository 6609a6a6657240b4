package jetstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
)

// blobMeta returns the description of the blob of that name. It asks the leader:
// the blob may have been written a moment ago. Of several descriptions the first
// one counts, so that nobody can put another blob in its place.
func (c *Cell) blobMeta(ctx context.Context, name string) (blobMeta, error) {
	for seq := uint64(0); ; {
		m, err := c.leaderNext(ctx, c.names.blobStream(), c.names.blobMeta(name), seq)
		if err != nil {
			return blobMeta{}, err
		}
		if meta, ok := c.describes(m); ok {
			return meta, nil
		}
		seq = m.Seq + 1 // a blob that was retired, or nonsense
	}
}

// getBlob returns the blob of that name, verified; ErrTooLarge if it has more bytes than
// the limit, zero for none.
func (c *Cell) getBlob(ctx context.Context, name string, limit int) ([]byte, error) {
	buf := bounded{limit: limit}
	if err := c.copyBlob(ctx, name, &buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// bounded takes what fits its limit.
type bounded struct {
	bytes.Buffer

	limit int
}

// Write returns ErrTooLarge, having written nothing, if the bytes do not fit any more.
func (b *bounded) Write(p []byte) (int, error) {
	if b.limit > 0 && b.Len()+len(p) > b.limit {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.limit)
	}
	return b.Buffer.Write(p) //nolint:wrapcheck // it never fails
}

// largestGrow is what is made room for on the word of a description.
const largestGrow = 128 << 20

// copyBlob writes the blob of that name to w, a chunk at a time. What was written is
// the blob only if there is no error: its digest is known at the end.
func (c *Cell) copyBlob(ctx context.Context, name string, w io.Writer) error {
	want, err := hex.DecodeString(name)
	if err != nil || len(want) != sha256.Size {
		return fmt.Errorf("%w: %q is no SHA-256", ErrBlobMissing, name)
	}
	meta, err := c.blobMeta(ctx, name)
	if errors.Is(err, errNoMessage) {
		return fmt.Errorf("%w: %s", ErrBlobMissing, name)
	}
	if err != nil {
		return fmt.Errorf("get blob %s: %w", name, err)
	}
	if buf, ok := w.(*bounded); ok {
		buf.Grow(int(min(meta.Size, largestGrow)))
	}
	sum := sha256.New()
	for chunk, err := range c.blobChunks(ctx, meta) {
		if err != nil {
			return fmt.Errorf("get blob %s: %w", name, err)
		}
		_, _ = sum.Write(chunk) // never fails
		if _, err := w.Write(chunk); err != nil {
			return fmt.Errorf("get blob %s: %w", name, err)
		}
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return fmt.Errorf("%w: %s: its bytes have another digest", ErrBlobMissing, name)
	}
	return nil
}

// blobChunks yields the chunks of a blob that it finds: those of any replica, which is
// fast, and then from the leader what that one may not have yet. What follows them is
// not the blob's.
func (c *Cell) blobChunks(ctx context.Context, meta blobMeta) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		stream, subject := c.names.blobStream(), c.names.blobChunks(meta.NUID)
		n, seq := uint32(0), uint64(0)
		for m, err := range c.batchGet(ctx, stream, subject, 0) {
			if err == nil && n == meta.Chunks {
				return
			}
			if !yield(m.Data, err) || err != nil {
				return
			}
			n, seq = n+1, m.Seq
		}
		for ; n < meta.Chunks; n++ {
			m, err := c.leaderNext(ctx, stream, subject, seq+1)
			if errors.Is(err, errNoMessage) {
				return
			}
			if !yield(m.Data, err) || err != nil {
				return
			}
			seq = m.Seq
		}
	}
}
