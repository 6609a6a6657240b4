package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// maxGrow limits the memory that is reserved according to a description.
const maxGrow = 128 << 20

// Get returns a verified blob. It returns ErrTooLarge if the blob has more bytes than limit;
// 0 means no limit.
func (s *Store) Get(ctx context.Context, name string, limit int) ([]byte, error) {
	buf := bounded{limit: limit}
	if err := s.CopyTo(ctx, name, &buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// bounded is a buffer with a limit.
type bounded struct {
	bytes.Buffer

	limit int
}

// Write writes all of p or returns ErrTooLarge.
func (b *bounded) Write(p []byte) (int, error) {
	if b.limit > 0 && b.Len()+len(p) > b.limit {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.limit)
	}
	return b.Buffer.Write(p) //nolint:wrapcheck // it never fails
}

// CopyTo writes a blob to dst, a chunk at a time. The digest is verified at the end, so discard what was
// written if it returns an error.
func (s *Store) CopyTo(ctx context.Context, name string, dst io.Writer) error {
	want, err := hex.DecodeString(name)
	if err != nil || len(want) != sha256.Size {
		return fmt.Errorf("%w: %q is not a SHA-256", ErrMissing, name)
	}
	meta, err := s.meta(ctx, name)
	if errors.Is(err, api.ErrNoMessage) {
		return fmt.Errorf("%w: %s", ErrMissing, name)
	}
	if err != nil {
		return fmt.Errorf("get blob %s: %w", name, err)
	}
	if buf, ok := dst.(*bounded); ok {
		buf.Grow(int(min(meta.Size, maxGrow)))
	}
	sum := sha256.New()
	for chunk, err := range s.chunks(ctx, meta) {
		if err != nil {
			return fmt.Errorf("get blob %s: %w", name, err)
		}
		_, _ = sum.Write(chunk) // never fails
		if _, err := dst.Write(chunk); err != nil {
			return fmt.Errorf("get blob %s: %w", name, err)
		}
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return fmt.Errorf("%w: %s: its bytes have another digest", ErrMissing, name)
	}
	return nil
}

// meta returns the first description of a blob, since a later one must not replace the blob. It asks the
// leader, because the blob may be new.
func (s *Store) meta(ctx context.Context, name string) (Meta, error) {
	for seq := uint64(0); ; {
		m, err := s.api.Next(ctx, s.names.BlobStream(), s.names.BlobMeta(name), seq)
		if err != nil {
			return Meta{}, err
		}
		if meta, ok := s.parse(m); ok {
			return meta, nil
		}
		seq = m.Seq + 1 // it is retired or invalid
	}
}

// chunks yields the chunks of a blob. Later messages on their subject are not part of it.
func (s *Store) chunks(ctx context.Context, meta Meta) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if meta.Chunks == 0 {
			return
		}
		n := uint32(0)
		for m, err := range s.api.All(ctx, s.names.BlobStream(), s.names.BlobChunks(meta.NUID), 0) {
			if n++; !yield(m.Data, err) || err != nil || n == meta.Chunks {
				return
			}
		}
	}
}
