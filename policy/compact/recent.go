package compact

import (
	"context"
	"fmt"

	"github.com/turnlog/turnlog/content"
)

// KeepRecent keeps the newest items or turns and drops older items. It keeps more if a cut
// would separate a call from its result, or an answer from its question. Set one field.
type KeepRecent struct {
	Items int // at least this many, not counting those that are always kept
	Turns int // each run of input begins a turn
}

// Name returns keep_recent.
func (KeepRecent) Name() string { return "keep_recent" }

// Compact drops older items.
func (s KeepRecent) Compact(_ context.Context, j *Job) ([]content.Item, error) {
	o := j.outline()
	return pick(j.Items, o.keep(s.cut(o))), nil
}

func (s KeepRecent) cut(o outline) int {
	if s.Turns > 0 {
		return o.cutBefore(o.turns(s.Turns))
	}
	return o.cutBefore(o.recent(s.Items))
}

func (s KeepRecent) check() error {
	if s.Items < 0 || s.Turns < 0 || (s.Items > 0) == (s.Turns > 0) {
		return &ConfigError{"Strategy", fmt.Sprintf("KeepRecent keeps %d items and %d turns: set one of them", s.Items, s.Turns)}
	}
	return nil
}

// recent returns the start of the n newest items that are not pinned.
func (o outline) recent(n int) int {
	i := len(o.items)
	for i > 0 && n > 0 {
		i--
		if !o.pinned[i] {
			n--
		}
	}
	return i
}

// turns returns the start of the n newest turns.
func (o outline) turns(n int) int {
	for i := len(o.items) - 1; i > 0; i-- {
		if !input(o.items[i]) || input(o.items[i-1]) {
			continue
		}
		if n--; n == 0 {
			return i
		}
	}
	return 0
}

// Window keeps the newest items that fit into so many tokens, with those that are always
// kept. It keeps the last item even if that does not fit.
type Window struct{ Tokens int64 }

// Name returns window.
func (Window) Name() string { return "window" }

// Compact drops the items that do not fit.
func (s Window) Compact(_ context.Context, j *Job) ([]content.Item, error) {
	if j.Tokens(j.Items) <= s.Tokens {
		return j.Items, nil
	}
	o := j.outline()
	c := o.costs(j)
	last := o.last()
	for at := range last {
		if o.whole[at] && j.meter.size(c.of(at)) <= s.Tokens {
			return pick(j.Items, o.keep(at)), nil
		}
	}
	return pick(j.Items, o.keep(last)), nil
}

func (s Window) check() error {
	if s.Tokens < 1 {
		return &ConfigError{"Strategy", fmt.Sprintf("Window.Tokens is %d, at least 1 is needed", s.Tokens)}
	}
	return nil
}

// costs computes the cost of each cut from sums, without visiting the items again.
type costs struct {
	outline outline
	all     []int64 // all[i]: items[:i]
	pinned  []int64 // the pinned ones of items[:i]
}

func (o outline) costs(j *Job) costs {
	c := costs{outline: o, all: make([]int64, len(o.items)+1), pinned: make([]int64, len(o.items)+1)}
	for i, it := range o.items {
		n := j.meter.est.Tokens(it)
		c.all[i+1], c.pinned[i+1] = c.all[i]+n, c.pinned[i]
		if o.pinned[i] {
			c.pinned[i+1] += n
		}
	}
	return c
}

// of returns the estimated cost of keep(s).
func (c costs) of(s int) int64 {
	o := c.outline
	sum := c.all[len(o.items)] - c.all[s] + c.pinned[s]
	free := func(from, to int) int64 { // the part of items[from:to] that is not counted yet
		to = min(to, s)
		if from >= to {
			return 0
		}
		return c.all[to] - c.all[from] - (c.pinned[to] - c.pinned[from])
	}
	from, to := o.opening(s)
	sum += free(from, to)
	if o.to <= from || to <= o.from { // else it is part of that run
		sum += free(o.from, o.to)
	}
	return sum
}
