// Package memory keeps the notes that tasks leave for later tasks, for all nodes of a cell.
package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/policy/notes"
)

// Memory keeps notes in a bucket of the cell. It is safe for concurrent use.
type Memory struct {
	bucket bucket.Bucket[notes.Note]
}

var _ notes.Store = (*Memory)(nil)

// Of returns the notes of a cell.
func Of(c *jetstream.Cell) *Memory {
	names := layout.New(c.Namespace())
	return &Memory{bucket.OfValues[notes.Note](api.New(c.Conn()), "note", names.Memory(), "", 2, layout.MarkerTTL)}
}

// Put stores a note. It replaces the scope's note with the same goal.
func (m *Memory) Put(ctx context.Context, scope string, n notes.Note, ttl time.Duration) error {
	b := m.bucket
	b.TTL = ttl
	_, err := b.Put(ctx, noteKey(scope, n.Goal), n)
	return err
}

// Notes returns the notes of a scope, newest first.
func (m *Memory) Notes(ctx context.Context, scope string) ([]notes.Note, error) {
	if !content.IsToken(scope) {
		return nil, fmt.Errorf("notes of scope %q: %w", scope, content.ErrBadID)
	}
	keys, err := m.bucket.Keys(ctx, scope+".*")
	if err != nil {
		return nil, err
	}
	var out []notes.Note
	for _, key := range keys {
		it, ok, err := m.bucket.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		if ok {
			it.Value.At = it.At
			out = append(out, it.Value)
		}
	}
	notes.NewestFirst(out)
	return out, nil
}

// Forget deletes the scope's note with a goal, if there is one.
func (m *Memory) Forget(ctx context.Context, scope, goal string) error {
	return m.bucket.Delete(ctx, noteKey(scope, goal))
}

// noteKey returns the key of a scope's note. The goal may be any text.
func noteKey(scope, goal string) string {
	sum := sha256.Sum256([]byte(goal))
	return scope + "." + hex.EncodeToString(sum[:16])
}
