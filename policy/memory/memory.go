package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/relevance"
)

// Note is what one task left.
type Note struct {
	Goal    string    `msgpack:"g"`
	Summary string    `msgpack:"s"`
	At      time.Time `msgpack:"-"` // when it was left, as the store knows
}

// Store keeps notes by scope. Implementations are safe for concurrent use.
type Store interface {
	// Put leaves a note, in place of the scope's note of the same goal. It is
	// forgotten after ttl.
	Put(ctx context.Context, scope string, n Note, ttl time.Duration) error
	// Notes returns the notes of a scope, newest first.
	Notes(ctx context.Context, scope string) ([]Note, error)
	// Forget takes the scope's note of a goal away, if there is one.
	Forget(ctx context.Context, scope, goal string) error
}

// Config says what a memory is for. Only Store is required.
type Config struct {
	Store Store
	Scope string        // who shares the notes; "": all; one token
	TTL   time.Duration // how long a note is remembered; 0: 7 days
	Most  int           // how many notes a task is shown; 0: 5
}

const (
	defaultTTL  = 7 * 24 * time.Hour
	defaultMost = 5
	everybody   = "all"

	maxText = 2000 // characters that are kept of a goal and of a summary
)

// Memory recalls and leaves notes. It is safe for concurrent use if its store is.
type Memory struct{ cfg Config }

// New returns a memory. It returns an error for a Config without a store, with a
// scope that is no token, or with negative numbers.
func New(cfg Config) (*Memory, error) {
	cfg.Scope = cmp.Or(cfg.Scope, everybody)
	switch {
	case cfg.Store == nil:
		return nil, errors.New("memory config: Store is required")
	case !content.IsToken(cfg.Scope):
		return nil, fmt.Errorf("memory config: Scope %q: use 1 to 128 letters, digits, '-' or '_'", cfg.Scope)
	case cfg.TTL < 0 || cfg.Most < 0:
		return nil, fmt.Errorf("memory config: TTL %s and Most %d must not be negative", cfg.TTL, cfg.Most)
	}
	cfg.TTL, cfg.Most = cmp.Or(cfg.TTL, defaultTTL), cmp.Or(cfg.Most, defaultMost)
	return &Memory{cfg}, nil
}

// Recall returns the notes that have to do with the goal as one Context item, the
// best first; nothing if there are none.
func (m *Memory) Recall(ctx context.Context, goal string) ([]content.Item, error) {
	notes, err := m.cfg.Store.Notes(ctx, m.cfg.Scope)
	if err != nil {
		return nil, fmt.Errorf("recall from %s: %w", m.cfg.Scope, err)
	}
	notes = fitting(notes, goal)
	notes = notes[:min(len(notes), m.cfg.Most)]
	if len(notes) == 0 {
		return nil, nil
	}
	var b strings.Builder
	b.WriteString("What earlier tasks left, which may help and may be out of date:\n")
	for _, n := range notes {
		fmt.Fprintf(&b, "- %s: %s (%s)\n", n.Goal, n.Summary, n.At.UTC().Format(time.DateOnly))
	}
	return []content.Item{content.NewItem(content.Context, content.TextPart(b.String()))}, nil
}

// fitting are the notes that have to do with a goal, the best first, and of equal ones
// the newest.
func fitting(notes []Note, goal string) []Note {
	words := relevance.Of(goal)
	type scored struct {
		Note

		score int
	}
	var found []scored
	for _, n := range notes {
		if score := words.Shared(relevance.Of(n.Goal, n.Summary)); score > 0 {
			found = append(found, scored{n, score})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	out := make([]Note, len(found))
	for i, f := range found {
		out[i] = f.Note
	}
	return out
}

// Remember leaves a note. A summary without a word leaves none.
func (m *Memory) Remember(ctx context.Context, goal, summary string) error {
	n := Note{Goal: line(goal), Summary: line(summary)}
	if n.Summary == "" {
		return nil
	}
	if err := m.cfg.Store.Put(ctx, m.cfg.Scope, n, m.cfg.TTL); err != nil {
		return fmt.Errorf("remember in %s: %w", m.cfg.Scope, err)
	}
	return nil
}

// line is a text in one line that is not too long.
func line(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > maxText {
		return string(runes[:maxText-1]) + "…"
	}
	return string(runes)
}
