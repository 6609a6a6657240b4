package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/notes"
)

// Memory keeps the notes that tasks leave, for all nodes of the cell. It is safe for
// concurrent use.
type Memory struct {
	cell *Cell
}

var _ notes.Store = (*Memory)(nil)

// Memory returns the cell's notes.
func (c *Cell) Memory() *Memory { return &Memory{cell: c} }

// Put leaves a note, in place of the scope's note of the same goal.
func (m *Memory) Put(ctx context.Context, scope string, n notes.Note, ttl time.Duration) error {
	key, err := noteKey(scope, n.Goal)
	if err != nil {
		return err
	}
	value, err := encodeValue(&n)
	if err == nil {
		err = m.cell.keyPut(ctx, m.cell.names.memoryBucket(), key, value, ttl)
	}
	if err != nil {
		return fmt.Errorf("put note: %w", err)
	}
	return nil
}

// Notes returns the notes of a scope, newest first. It reads all of them.
func (m *Memory) Notes(ctx context.Context, scope string) ([]notes.Note, error) {
	if !content.IsToken(scope) {
		return nil, badScope(scope)
	}
	bucket := m.cell.names.memoryBucket()
	keys, err := m.cell.keys(ctx, bucket, scope+".*")
	if err != nil {
		return nil, fmt.Errorf("notes of %s: %w", scope, err)
	}
	var out []notes.Note
	for _, key := range keys {
		s, err := m.cell.keyStored(ctx, bucket, key)
		if errors.Is(err, errNoMessage) {
			continue // it was forgotten
		}
		n := notes.Note{At: s.Time}
		if err == nil {
			err = unmarshal(s.Data, &n)
		}
		if err != nil {
			return nil, fmt.Errorf("notes of %s: %w", scope, err)
		}
		out = append(out, n)
	}
	notes.NewestFirst(out)
	return out, nil
}

// Forget takes the scope's note of a goal away, if there is one.
func (m *Memory) Forget(ctx context.Context, scope, goal string) error {
	key, err := noteKey(scope, goal)
	if err != nil {
		return err
	}
	if err := m.cell.keyDelete(ctx, m.cell.names.memoryBucket(), key, expiryMarkers); err != nil {
		return fmt.Errorf("forget note: %w", err)
	}
	return nil
}

// noteKey is the key of a scope's note of a goal, which may be any text.
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
