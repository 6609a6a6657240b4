// Package notes keeps what tasks learned for later tasks. It implements extension.Notes on
// a [Store].
//
// A note is a goal and its outcome, in one line each. Planning a task recalls the notes in
// its scope with the most similar goals. Finishing the task stores a note, which expires
// after a while and replaces an earlier note for the same goal.
//
// [Local] keeps notes in this process; package jetstream has a Store that all nodes of a
// cell share. Code that uses notes can be tested with [Local]. [Plan] adds other
// sources, such as workspace.Specs.
//
// A failure does not stop a task: it is recorded as a warning, and the task continues.
package notes

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

// Note is what one task stored.
type Note struct {
	Goal    string    `msgpack:"g"`
	Summary string    `msgpack:"s"`
	At      time.Time `msgpack:"-"` // when it was stored
}

// Store keeps notes by scope. Implementations are safe for concurrent use.
type Store interface {
	// Put stores a note for ttl. It replaces the scope's note of the same goal.
	Put(ctx context.Context, scope string, n Note, ttl time.Duration) error
	// Notes returns the notes of a scope, newest first.
	Notes(ctx context.Context, scope string) ([]Note, error)
	// Forget deletes the scope's note of a goal, if there is one.
	Forget(ctx context.Context, scope, goal string) error
}

// Config configures [Notes]. Only Store is required.
type Config struct {
	Store Store
	Scope string        // a token; tasks with the same scope share notes; "": all
	TTL   time.Duration // how long a note is kept; 0: 7 days
}

const (
	defaultTTL   = 7 * 24 * time.Hour
	defaultScope = "all"

	maxRecalled = 5    // notes for one task
	maxText     = 2000 // characters of a goal and of a summary
)

// Notes recalls and stores notes. It is safe for concurrent use.
type Notes struct{ cfg Config }

// New returns an error for a Config without a store, with a scope that is not a token,
// or with a negative TTL.
func New(cfg Config) (*Notes, error) {
	cfg.Scope = cmp.Or(cfg.Scope, defaultScope)
	switch {
	case cfg.Store == nil:
		return nil, errors.New("notes config: Store is required")
	case !content.IsToken(cfg.Scope):
		return nil, fmt.Errorf("notes config: Scope %q: use 1 to 128 letters, digits, '-' or '_'", cfg.Scope)
	case cfg.TTL < 0:
		return nil, fmt.Errorf("notes config: TTL %s must not be negative", cfg.TTL)
	}
	cfg.TTL = cmp.Or(cfg.TTL, defaultTTL)
	return &Notes{cfg}, nil
}

// Recall returns the notes that are similar to the goal as one Context item, the best
// first; nothing if there are none.
func (n *Notes) Recall(ctx context.Context, goal string) ([]content.Item, error) {
	all, err := n.cfg.Store.Notes(ctx, n.cfg.Scope)
	if err != nil {
		return nil, fmt.Errorf("recall from %s: %w", n.cfg.Scope, err)
	}
	found := similar(all, goal)
	if len(found) == 0 {
		return nil, nil
	}
	var b strings.Builder
	b.WriteString("What earlier tasks left, which may help and may be out of date:\n")
	for _, note := range found[:min(len(found), maxRecalled)] {
		fmt.Fprintf(&b, "- %s: %s (%s)\n", note.Goal, note.Summary, note.At.UTC().Format(time.DateOnly))
	}
	return []content.Item{content.NewItem(content.Context, content.TextPart(b.String()))}, nil
}

// similar returns the notes that share words with a goal, the best first.
func similar(all []Note, goal string) []Note {
	words := relevance.Of(goal)
	score := func(n Note) int { return words.Shared(relevance.Of(n.Goal, n.Summary)) }
	found := slices.DeleteFunc(slices.Clone(all), func(n Note) bool { return score(n) == 0 })
	slices.SortStableFunc(found, func(a, b Note) int { return cmp.Compare(score(b), score(a)) })
	return found
}

// Remember stores a note, unless the summary is empty.
func (n *Notes) Remember(ctx context.Context, goal, summary string) error {
	note := Note{Goal: line(goal), Summary: line(summary)}
	if note.Summary == "" {
		return nil
	}
	if err := n.cfg.Store.Put(ctx, n.cfg.Scope, note, n.cfg.TTL); err != nil {
		return fmt.Errorf("remember in %s: %w", n.cfg.Scope, err)
	}
	return nil
}

// line returns a text as one line of limited length.
func line(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > maxText {
		return string(runes[:maxText-1]) + "…"
	}
	return string(runes)
}
