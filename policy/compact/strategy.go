package compact

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
)

// Strategy makes a transcript smaller.
type Strategy interface {
	// Name returns the strategy's name in the journal.
	Name() string
	// Compact returns the new items, or j.Items itself if there is nothing to do. It must
	// not edit them in place. An error leaves the transcript unchanged.
	Compact(ctx context.Context, j *Job) ([]content.Item, error)
}

// Job is one run of a strategy.
type Job struct {
	Items   []content.Item // read only
	Session content.SessionID
	Turn    content.TurnID
	Point   extension.Point

	pin   []content.Kind
	meter meter
	usage content.Usage
	steps []string
}

// Tokens returns the estimated size of a part of the transcript.
func (j *Job) Tokens(left []content.Item) int64 { return j.meter.size(j.meter.estimate(left)) }

// Spend records the usage of a strategy's model calls, even if the strategy fails later.
func (j *Job) Spend(u content.Usage) { j.usage = j.usage.Add(u) }

// Pinned reports whether an item must be kept: System and Developer items, the configured
// kinds, and summaries, including a provider's, since they replace other items.
func (j *Job) Pinned(it content.Item) bool {
	switch {
	case it.Kind == content.System, it.Kind == content.Developer, slices.Contains(j.pin, it.Kind):
		return len(it.Calls())+len(it.Results()) == 0
	case it.FinishReason == content.Compaction:
		return len(it.Calls()) == 0
	}
	return isSummary(it)
}

// run applies one strategy and records it if it changed something.
func (j *Job) run(ctx context.Context, s Strategy) ([]content.Item, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	left, err := s.Compact(ctx, j)
	if _, ok := s.(Pipeline); ok {
		return left, err // its steps were recorded
	}
	if err != nil {
		return nil, fmt.Errorf("strategy %s: %w", s.Name(), err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if j.meter.estimate(left) != j.meter.estimate(j.Items) {
		j.steps = append(j.steps, s.Name())
	}
	return left, nil
}

// Pipeline applies strategies in order, each to the result of the one before, until the
// target is met. Put cheap and harmless ones first.
type Pipeline struct {
	Steps  []Strategy
	Target int64 // tokens; 0: every step is applied
}

// Name returns pipeline.
func (Pipeline) Name() string { return "pipeline" }

// Compact applies the steps.
func (p Pipeline) Compact(ctx context.Context, j *Job) ([]content.Item, error) {
	whole := j.Items
	defer func() { j.Items = whole }()
	for _, s := range p.Steps {
		if p.Target > 0 && j.Tokens(j.Items) <= p.Target {
			break
		}
		left, err := j.run(ctx, s)
		if err != nil {
			return nil, err
		}
		j.Items = left
	}
	return j.Items, nil
}

func (p Pipeline) check() error {
	if len(p.Steps) == 0 {
		return &ConfigError{"Strategy", "Pipeline has no steps"}
	}
	if p.Target < 0 {
		return &ConfigError{"Strategy", fmt.Sprintf("Pipeline.Target is %d tokens", p.Target)}
	}
	for _, s := range p.Steps {
		if err := checked(s); err != nil {
			return err
		}
	}
	return nil
}
