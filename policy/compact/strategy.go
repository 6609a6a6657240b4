package compact

import (
	"context"
	"errors"
	"fmt"
	"math"

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

	counted   int64 // the size of the whole transcript, as the model counts
	estimated int64 // its estimate
	usage     content.Usage
	steps     []string
}

func newJob(m *extension.Mutation) *Job {
	return &Job{Items: m.Items, Session: m.Session, Turn: m.Turn, counted: count(m.Items), estimated: estimate(m.Items)}
}

// Tokens returns the size of a part of the transcript. The estimate may be wrong by a factor, or by
// what the model sees besides the transcript. Tokens applies the correction that gives the larger
// size.
func (j *Job) Tokens(left []content.Item) int64 {
	sum := estimate(left)
	difference := j.counted + sum - j.estimated
	if sum >= j.estimated {
		return difference
	}
	return max(difference, int64(math.Ceil(float64(j.counted)*float64(sum)/float64(j.estimated))))
}

// Spend records the usage of a strategy's model calls, even if the strategy fails later.
func (j *Job) Spend(u content.Usage) { j.usage = j.usage.Add(u) }

// pinned reports whether an item must be kept: System and Developer items, and summaries,
// including a provider's, since they replace other items.
func pinned(it content.Item) bool {
	switch {
	case it.Kind == content.System, it.Kind == content.Developer:
		return true
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
	if estimate(left) != estimate(j.Items) {
		j.steps = append(j.steps, s.Name())
	}
	return left, nil
}

// Pipeline applies strategies in order, each to the result of the previous one, until the target is
// met. Put strategies that cost and lose little first.
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
	if len(p.Steps) == 0 || p.Target < 0 {
		return fmt.Errorf("Pipeline has %d steps and the target %d: use one or more, and no negative target", len(p.Steps), p.Target)
	}
	var errs []error
	for _, s := range p.Steps {
		errs = append(errs, check(s))
	}
	return errors.Join(errs...)
}
