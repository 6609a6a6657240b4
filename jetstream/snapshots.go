package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/sealing"
)

// Snapshots keeps the newest snapshot of each session, and its chunks by their digests. Nothing here shows
// who stored them, so a reader must check them against the journal. It is safe for concurrent use.
type Snapshots struct {
	cell   *Cell
	bucket bucket.Bucket[journal.Snapshot]
	chunks bucket.Bucket[[]byte]
}

// Snapshots returns the cell's snapshots.
func (c *Cell) Snapshots() *Snapshots {
	b := c.names.Snapshots()
	chunks := bucket.OfBytes(c.api, "chunk of snapshot", b, 2)
	chunks.Once = true
	snapshots := bucket.OfValues[journal.Snapshot](c.api, "snapshot", b, "", 1, 0)
	snapshots.Once = true
	return &Snapshots{c, snapshots, chunks}
}

// of returns the bucket for one session.
func (s *Snapshots) of(id content.SessionID) bucket.Bucket[journal.Snapshot] {
	b := s.bucket
	b.Unpack = func(ctx context.Context, h nats.Header, data []byte) ([]byte, error) {
		return s.cell.unpack(ctx, id, sealing.Snapshot, h, data, 0)
	}
	return b
}

// Put replaces the snapshot of a session, whose chunks are already stored. A replaced driver may overwrite
// a newer snapshot with an older one. Both are correct: the journal has the rest.
func (s *Snapshots) Put(ctx context.Context, id content.SessionID, snap journal.Snapshot) error {
	b, key := s.bucket, string(id)
	if !b.Valid(key) {
		return b.Failed("put", key, content.ErrBadID)
	}
	old, err := s.cell.api.Last(ctx, b.Stream, b.Prefix+key)
	if err != nil && !errors.Is(err, api.ErrNoMessage) {
		return b.Failed("put", key, err)
	}
	value, err := b.Encode(&snap)
	if err != nil {
		return b.Failed("put", key, err)
	}
	h, err := write(ctx, s.cell, b, id, key, value)
	if err != nil {
		return err
	}
	if name := old.Header.Get(layout.HeaderBlob); name != "" && name != h.Get(layout.HeaderBlob) {
		s.cell.blobs.Drop(ctx, name)
	}
	return nil
}

// write stores a value of a session's snapshot.
func write[T any](ctx context.Context, c *Cell, b bucket.Bucket[T], id content.SessionID, key string, value []byte) (nats.Header, error) {
	msg := nats.NewMsg("")
	if err := c.pack(ctx, id, sealing.Snapshot, msg, value); err != nil {
		return nil, b.Failed("put", key, err)
	}
	_, err := b.Write(ctx, "put", key, msg.Data, msg.Header)
	return msg.Header, err
}

// Keep stores a chunk of a session's snapshots.
func (s *Snapshots) Keep(ctx context.Context, id content.SessionID, digest events.Hash, chunk []byte) error {
	key, err := s.chunkKey(ctx, id, digest)
	if err == nil {
		_, err = write(ctx, s.cell, s.chunks, id, key, chunk)
	}
	return err
}

// chunkKey returns the key of a chunk: the session and the digest. In a sealed session the digest is keyed
// with the session's key, since a plain digest would let others confirm a guess at the content.
func (s *Snapshots) chunkKey(ctx context.Context, id content.SessionID, digest events.Hash) (string, error) {
	sealed, err := s.cell.seals.Of(ctx, id)
	if err != nil {
		return "", fmt.Errorf("chunk of the snapshot of %s: %w", id, err)
	}
	if sealed != nil {
		digest = sealed.Digest(digest[:])
	}
	return string(id) + "." + digest.String(), nil
}

// Drop removes a chunk that the newest snapshot does not use. If the chunk is a blob, a collection removes
// that.
func (s *Snapshots) Drop(ctx context.Context, id content.SessionID, digest events.Hash) error {
	key, err := s.chunkKey(ctx, id, digest)
	if err == nil && !s.chunks.Valid(key) {
		err = s.chunks.Failed("drop", key, content.ErrBadID)
	}
	if err != nil {
		return err
	}
	return s.cell.api.Purge(ctx, s.chunks.Stream, s.chunks.Prefix+key, 0)
}

// Get returns the snapshot of a session without its chunks, and whether there is one. After an error, read
// the journal from its start instead.
func (s *Snapshots) Get(ctx context.Context, id content.SessionID) (journal.Snapshot, bool, error) {
	it, ok, err := s.of(id).Get(ctx, string(id))
	if errors.Is(err, ErrBlobMissing) { // the snapshot may have been replaced meanwhile
		it, ok, err = s.of(id).Get(ctx, string(id))
	}
	return it.Value, ok, err
}

// Chunks returns those chunks that are stored. It does not verify their digests.
func (s *Snapshots) Chunks(ctx context.Context, id content.SessionID, digests []events.Hash) (map[events.Hash][]byte, error) {
	out := make(map[events.Hash][]byte, len(digests))
	if len(digests) == 0 || !s.bucket.Valid(string(id)) {
		return out, nil
	}
	wanted := make(map[string]events.Hash, len(digests))
	for _, d := range digests {
		key, err := s.chunkKey(ctx, id, d)
		if err != nil {
			return nil, err
		}
		wanted[s.chunks.Prefix+key] = d
	}
	for m, err := range s.cell.api.All(ctx, s.chunks.Stream, s.chunks.Prefix+string(id)+".*", 0) {
		digest, is := wanted[m.Subject]
		if err == nil && (!is || m.Spoofed) {
			continue
		}
		if err == nil {
			out[digest], err = s.cell.unpack(ctx, id, sealing.Snapshot, m.Header, m.Data, 0)
		}
		if err != nil {
			return nil, fmt.Errorf("chunks of the snapshot of %s: %w", id, err)
		}
	}
	return out, nil
}
