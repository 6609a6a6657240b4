package notes

import (
	"context"
	"errors"

	"github.com/turnlog/turnlog/content"
)

// Source recalls what may help with a goal.
type Source interface {
	// Recall returns the items, best first; beside an error, those found all the same.
	Recall(ctx context.Context, goal string) ([]content.Item, error)
}

// Keeper is a source that also stores the outcomes of tasks: an extension.Notes.
type Keeper interface {
	Source
	// Remember stores the outcome of a task.
	Remember(ctx context.Context, goal, summary string) error
}

// Plan returns a Keeper that recalls from all of the sources, then from k, and stores in
// k; a nil k stores nothing. An error of one source does not stop the others.
func Plan(k Keeper, sources ...Source) Keeper {
	if k != nil {
		sources = append(sources, k)
	}
	return &plan{keeper: k, sources: sources}
}

type plan struct {
	keeper  Keeper // may be nil
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
	if p.keeper == nil {
		return nil
	}
	return p.keeper.Remember(ctx, goal, summary)
}
