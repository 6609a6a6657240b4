package memory

import (
	"context"
	"errors"

	"github.com/turnlog/turnlog/content"
)

// Source is something that planning may be told of.
type Source interface {
	// Recall returns what may help with the goal.
	Recall(ctx context.Context, goal string) ([]content.Item, error)
}

// Keeper is a source that tasks leave notes in: an extension.Memory.
type Keeper interface {
	Source
	// Remember leaves what came of the goal.
	Remember(ctx context.Context, goal, summary string) error
}

// Plan is a memory that recalls what all of the sources know, in order, and leaves
// its notes in m; with a nil m it leaves none. What one source fails at does not
// keep the others from being heard.
func Plan(m Keeper, sources ...Source) Keeper {
	if m != nil {
		sources = append(sources, m)
	}
	return &plan{notes: m, sources: sources}
}

type plan struct {
	notes   Keeper // nil: none
	sources []Source
}

func (p *plan) Recall(ctx context.Context, goal string) ([]content.Item, error) {
	var items []content.Item
	var errs []error
	for _, s := range p.sources {
		more, err := s.Recall(ctx, goal)
		items, errs = append(items, more...), append(errs, err)
	}
	return items, errors.Join(errs...)
}

func (p *plan) Remember(ctx context.Context, goal, summary string) error {
	if p.notes == nil {
		return nil
	}
	return p.notes.Remember(ctx, goal, summary)
}
