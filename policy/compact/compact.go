package compact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
)

// Keys of the metadata of a compaction's MutationFinished.
const (
	MetaReason  = "reason"        // why the trigger fired
	MetaSteps   = "steps"         // the strategies that changed something, in order
	MetaRemoved = "items_removed" // how many items shorter the transcript is
)

// Config configures a [Compactor]. Only Strategy is required.
type Config struct {
	Name     string   // "": compaction; the mutator's name in the journal
	Trigger  Trigger  // when; zero: every time
	Strategy Strategy // how
}

// Trigger says when to compact: if any of its limits is exceeded. The zero Trigger fires
// every time; then the strategy alone decides whether to change something.
type Trigger struct {
	Items int // the transcript may have this many items; 0: no limit

	// The transcript may take this share of the model's context window. Tools and the
	// answer count only if the model reports them, so leave room for both.
	Window int64   // tokens; model.Capabilities may know; 0: no limit
	Share  float64 // 0: 0.75; at most 1
}

// fires returns the reason to compact; "": do not compact.
func (t Trigger) fires(items int, tokens int64) string {
	switch {
	case t.Items == 0 && t.Window == 0:
		return "always"
	case t.Items > 0 && items > t.Items:
		return "item_count"
	case t.Window > 0 && float64(tokens) > cmp.Or(t.Share, 0.75)*float64(t.Window):
		return "context_window"
	}
	return ""
}

// Compactor is a mutator that compacts. It is safe for concurrent use.
type Compactor struct{ cfg Config }

// New returns a compactor. It returns an error for an invalid configuration.
func New(c Config) (*Compactor, error) {
	c.Name = cmp.Or(c.Name, "compaction")
	if t := c.Trigger; t.Items < 0 || t.Window < 0 || t.Share < 0 || t.Share > 1 {
		return nil, fmt.Errorf("compact config: trigger %+v: numbers must not be negative, and Share at most 1", t)
	}
	if err := check(c.Strategy); err != nil {
		return nil, fmt.Errorf("compact config: %w", err)
	}
	return &Compactor{cfg: c}, nil
}

func check(s Strategy) error {
	if s == nil {
		return errors.New("a strategy is required")
	}
	if c, ok := s.(interface{ check() error }); ok {
		return c.check()
	}
	return nil
}

// Name returns the configured name.
func (c *Compactor) Name() string { return c.cfg.Name }

// Points returns BeforeModel, where a transcript has everything that the model is about to read.
func (c *Compactor) Points() []extension.Point { return []extension.Point{extension.BeforeModel} }

// Mutate compacts the transcript if the trigger fires and the result is smaller.
func (c *Compactor) Mutate(ctx context.Context, m *extension.Mutation) error {
	if m.Point != extension.BeforeModel {
		return nil
	}
	j := newJob(m)
	reason := c.cfg.Trigger.fires(len(m.Items), j.counted)
	if reason == "" {
		return nil
	}
	m.OldTokens, m.NewTokens = j.counted, j.counted
	m.Metadata = m.Metadata.With(MetaReason, reason)
	left, err := j.run(ctx, c.cfg.Strategy)
	m.Usage = m.Usage.Add(j.usage)
	if err != nil {
		return err
	}
	if problem := damage(m.Items, left); problem != "" {
		return fmt.Errorf("strategy %s: %s", c.cfg.Strategy.Name(), problem)
	}
	size := j.Tokens(left)
	if size >= j.counted {
		return nil
	}
	m.Metadata = m.Metadata.With(MetaSteps, j.steps).With(MetaRemoved, len(m.Items)-len(left))
	m.NewTokens, m.Items = size, anchored(left, size)
	return nil
}

// damage returns the rule that a strategy violated; "": none. The host checks the pairing
// of calls and results.
func damage(before, after []content.Item) string {
	for i, it := range before {
		if it.Kind != content.System {
			break
		}
		if i >= len(after) || !same(it, after[i]) {
			return "it changed the system items at the head"
		}
	}
	if n := len(before); n > 0 && (len(after) == 0 || !same(before[n-1], after[len(after)-1])) {
		return "it changed the last item"
	}
	from, to := newestInput(before)
	for _, it := range before[from:to] {
		if !slices.ContainsFunc(after, func(o content.Item) bool { return same(it, o) }) {
			return "it dropped the newest input"
		}
	}
	return ""
}

func same(a, b content.Item) bool {
	return a.ID == b.ID && a.Kind == b.Kind && reflect.DeepEqual(a.Parts, b.Parts)
}
