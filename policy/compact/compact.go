package compact

import (
	"cmp"
	"context"
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
	Name      string            // "": compaction; the mutator's name in the journal
	Trigger   Trigger           // when; zero: every time
	Strategy  Strategy          // how
	Points    []extension.Point // nil: extension.BeforeModel alone
	Pin       []content.Kind    // kinds to keep, in addition to System and Developer
	Estimator Estimator         // nil: Bytes{}
}

// ConfigError is returned by New for an invalid configuration; correct the field.
type ConfigError struct{ Field, Problem string }

// Error returns the field and its problem.
func (e *ConfigError) Error() string { return "compact config: " + e.Field + ": " + e.Problem }

// Compactor is a mutator that compacts. It is safe for concurrent use.
type Compactor struct{ cfg Config }

// New returns a compactor, or a *ConfigError.
func New(c Config) (*Compactor, error) {
	c.Name = cmp.Or(c.Name, "compaction")
	if c.Points == nil {
		c.Points = []extension.Point{extension.BeforeModel}
	}
	if c.Estimator == nil {
		c.Estimator = Bytes{}
	}
	for _, p := range c.Points {
		if !p.ForMutators() {
			return nil, &ConfigError{"Points", string(p) + " is not a point of mutators"}
		}
	}
	for _, k := range c.Pin {
		if k == content.Assistant || k == content.Tool {
			return nil, &ConfigError{"Pin", "cannot contain " + string(k) + ": then nothing could be compacted"}
		}
	}
	if err := c.Trigger.check(); err != nil {
		return nil, err
	}
	if err := checked(c.Strategy); err != nil {
		return nil, err
	}
	return &Compactor{cfg: c}, nil
}

// checked calls the check of a strategy that has one.
func checked(s Strategy) error {
	if s == nil {
		return &ConfigError{"Strategy", "is required"}
	}
	if c, ok := s.(interface{ check() error }); ok {
		return c.check()
	}
	return nil
}

// Name returns the configured name.
func (c *Compactor) Name() string { return c.cfg.Name }

// Points returns the points at which it runs.
func (c *Compactor) Points() []extension.Point { return slices.Clone(c.cfg.Points) }

// Mutate compacts the transcript if the trigger fires and the result is smaller.
func (c *Compactor) Mutate(ctx context.Context, m *extension.Mutation) error {
	if !slices.Contains(c.cfg.Points, m.Point) {
		return nil
	}
	meter := newMeter(c.cfg.Estimator, m.Items)
	reason := c.cfg.Trigger.fires(View{Point: m.Point, Items: m.Items, Tokens: meter.old})
	if reason == "" {
		return nil
	}
	m.OldTokens, m.NewTokens = meter.old, meter.old
	m.Metadata = m.Metadata.With(MetaReason, reason)
	j := &Job{Items: m.Items, Session: m.Session, Turn: m.Turn, Point: m.Point, pin: c.cfg.Pin, meter: meter}
	left, err := j.run(ctx, c.cfg.Strategy)
	m.Usage = m.Usage.Add(j.usage)
	if err != nil {
		return err
	}
	if problem := damage(m.Items, left); problem != "" {
		return fmt.Errorf("strategy %s: %s", c.cfg.Strategy.Name(), problem)
	}
	size := j.Tokens(left)
	if size >= meter.old {
		return nil
	}
	m.Metadata = m.Metadata.With(MetaSteps, j.steps).With(MetaRemoved, len(m.Items)-len(left))
	m.NewTokens, m.Items = size, anchored(left, size)
	return nil
}

// damage returns what a strategy did against the rules; "": nothing. The host checks the
// pairing of calls and results.
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
