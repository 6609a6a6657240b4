package notes

import (
	"context"
	"errors"

	"github.com/turnlog/turnlog/content"
)

// Source recalls what may help with a goal.
type Source interface {
	// Recall returns the items, best first. With an error, it still returns the items that it found.
	Recall(ctx context.Context, goal string) ([]content.Item, error)
}

// Keeper is a source that also stores the outcomes of tasks: an extension.Notes.
type Keeper interface {
	Source
	// Remember stores the outcome of a task.
	Remember(ctx context.Context, goal, summary string) error
}

// Plan returns notes that recall from all sources, then from n, and store in n. A nil n stores
// nothing. An error from one source does not stop the others.
func Plan(n Keeper, sources ...Source) Keeper {
	if n != nil {
		sources = append(sources, n)
	}
	return plan{n, sources}
}

type plan struct {
	notes   Keeper // may be nil
	sources []Source
}

func (p plan) Recall(ctx context.Context, goal string) ([]content.Item, error) {
	var items []content.Item
	var errs []error
	for _, s := range p.sources {
		more, err := s.Recall(ctx, goal)
		items, errs = append(items, more...), append(errs, err)
	}
	return items, errors.Join(errs...)
}

func (p plan) Remember(ctx context.Context, goal, summary string) error {
	if p.notes == nil {
		return nil
	}
	return p.notes.Remember(ctx, goal, summary)
}
