package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/policy/notes"
)

// Memory keeps the notes that tasks leave, for all nodes of the cell. It is safe for
// concurrent use.
type Memory struct {
	bucket bucket[notes.Note]
}

var _ notes.Store = (*Memory)(nil)

// Memory returns the cell's notes.
func (c *Cell) Memory() *Memory {
	return &Memory{valueBucket[notes.Note](c, c.names.Memory(), "", layout.MarkerTTL)}
}

// Put stores a note and replaces the scope's note of the same goal.
func (m *Memory) Put(ctx context.Context, scope string, n notes.Note, ttl time.Duration) error {
	key, err := noteKey(scope, n.Goal)
	if err != nil {
		return err
	}
	b := m.bucket
	b.ttl = ttl
	if _, err := b.put(ctx, key, n); err != nil {
		return fmt.Errorf("put note: %w", err)
	}
	return nil
}

// Notes returns the notes of a scope, newest first. It reads all of them.
func (m *Memory) Notes(ctx context.Context, scope string) ([]notes.Note, error) {
	if !content.IsToken(scope) {
		return nil, badScope(scope)
	}
	keys, err := m.bucket.keys(ctx, scope+".*")
	if err != nil {
		return nil, fmt.Errorf("notes of %s: %w", scope, err)
	}
	var out []notes.Note
	for _, key := range keys {
		it, ok, err := m.bucket.get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("notes of %s: %w", scope, err)
		}
		if ok {
			it.Value.At = it.At
			out = append(out, it.Value)
		}
	}
	notes.NewestFirst(out)
	return out, nil
}

// Forget deletes the scope's note of a goal, if there is one.
func (m *Memory) Forget(ctx context.Context, scope, goal string) error {
	key, err := noteKey(scope, goal)
	if err != nil {
		return err
	}
	if err := m.bucket.delete(ctx, key); err != nil {
		return fmt.Errorf("forget note: %w", err)
	}
	return nil
}

// noteKey returns the key of a scope's note of a goal, which may be any text.
func noteKey(scope, goal string) (string, error) {
	if !content.IsToken(scope) {
		return "", badScope(scope)
	}
	sum := sha256.Sum256([]byte(goal))
	return scope + "." + hex.EncodeToString(sum[:16]), nil
}

func badScope(scope string) error {
	return fmt.Errorf("%w: scope %q", content.ErrBadID, scope)
}
