package notes

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Local is a Store in this process. It is safe for concurrent use.
type Local struct {
	mu    sync.Mutex
	notes map[key]kept
}

type key struct{ scope, goal string }

type kept struct {
	Note

	until time.Time
}

// NewLocal returns an empty store.
func NewLocal() *Local { return &Local{notes: map[key]kept{}} }

// Put stores a note.
func (l *Local) Put(_ context.Context, scope string, n Note, ttl time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.At = time.Now()
	maps.DeleteFunc(l.notes, func(_ key, k kept) bool { return !k.until.After(n.At) })
	l.notes[key{scope, n.Goal}] = kept{Note: n, until: n.At.Add(ttl)}
	return nil
}

// Notes returns the notes of a scope.
func (l *Local) Notes(_ context.Context, scope string) ([]Note, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Note
	for k, n := range l.notes {
		if k.scope == scope && n.until.After(time.Now()) {
			out = append(out, n.Note)
		}
	}
	NewestFirst(out)
	return out, nil
}

// Forget deletes a note.
func (l *Local) Forget(_ context.Context, scope, goal string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.notes, key{scope, goal})
	return nil
}

// NewestFirst sorts notes as Store.Notes returns them.
func NewestFirst(notes []Note) {
	slices.SortFunc(notes, func(a, b Note) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Goal, b.Goal))
	})
}
