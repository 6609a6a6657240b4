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
	"math"

	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// Blob is a blob in the store, as its writer described it.
type Blob struct {
	store *Store
	name  string
	sum   []byte
	meta  Meta
}

// minChunk is the smallest average size of chunks. A description with a smaller one is invalid.
const minChunk = 4 << 10

// Open returns a blob without reading it. It returns ErrMissing if there is none.
func (s *Store) Open(ctx context.Context, name string) (*Blob, error) {
	sum, err := hex.DecodeString(name)
	if err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("%w: %q is not a SHA-256", ErrMissing, name)
	}
	meta, err := s.meta(ctx, name)
	switch {
	case errors.Is(err, api.ErrNoMessage):
		return nil, fmt.Errorf("%w: %s", ErrMissing, name)
	case err != nil:
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	case meta.Size > math.MaxInt64 || uint64(meta.Chunks) > meta.Size/minChunk+1:
		return nil, fmt.Errorf("%w: %s: %d bytes in %d chunks", ErrMissing, name, meta.Size, meta.Chunks)
	}
	return &Blob{s, name, sum, meta}, nil
}

// Size returns the declared size. Reading yields no more bytes.
func (b *Blob) Size() int64 { return int64(b.meta.Size) } //nolint:gosec // Open checks it

// Read returns the verified bytes. It allocates memory as bytes arrive: the size in the description may be
// false.
func (b *Blob) Read(ctx context.Context) ([]byte, error) {
	var buf bytes.Buffer
	if err := b.CopyTo(ctx, &buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// CopyTo writes the blob to dst, a chunk at a time. The digest is verified at the end, so discard what
// was written if it returns an error.
func (b *Blob) CopyTo(ctx context.Context, dst io.Writer) error {
	sum, left := sha256.New(), b.meta.Size
	for chunk, err := range b.store.chunks(ctx, b.meta) {
		if err != nil {
			return fmt.Errorf("get blob %s: %w", b.name, err)
		}
		if uint64(len(chunk)) > left {
			return fmt.Errorf("%w: %s: it has more bytes than the %d of its description", ErrMissing, b.name, b.meta.Size)
		}
		left -= uint64(len(chunk))
		_, _ = sum.Write(chunk) // never fails
		if _, err := dst.Write(chunk); err != nil {
			return fmt.Errorf("get blob %s: %w", b.name, err)
		}
	}
	if !bytes.Equal(sum.Sum(nil), b.sum) {
		return fmt.Errorf("%w: %s: its bytes have a different digest", ErrMissing, b.name)
	}
	return nil
}

// Get returns a verified blob. It returns ErrTooLarge if the blob has more bytes than limit;
// 0 means no limit.
func (s *Store) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	b, err := s.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if limit > 0 && b.Size() > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, b.Size(), limit)
	}
	return b.Read(ctx)
}

// CopyTo is [Blob.CopyTo] for a name.
func (s *Store) CopyTo(ctx context.Context, name string, dst io.Writer) error {
	b, err := s.Open(ctx, name)
	if err != nil {
		return err
	}
	return b.CopyTo(ctx, dst)
}

// maxInvalid is how many retired or invalid descriptions of a blob are skipped.
const maxInvalid = 256

// meta returns the first valid description of a blob, since a later one must not replace the blob. It asks
// the leader, because the blob may be new.
func (s *Store) meta(ctx context.Context, name string) (Meta, error) {
	seq := uint64(0)
	for range maxInvalid {
		m, err := s.api.Next(ctx, s.names.BlobStream(), s.names.BlobMeta(name), seq)
		if err != nil {
			return Meta{}, err
		}
		if meta, ok := s.parse(m); ok {
			return meta, nil
		}
		seq = m.Seq + 1 // retired or invalid
	}
	return Meta{}, api.ErrNoMessage
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
