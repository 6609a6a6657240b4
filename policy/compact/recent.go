package compact

import (
	"context"
	"fmt"
	"slices"

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
	cut, size := o.last(), o.pinnedSize(j)
	for at, item := range slices.Backward(o.items) {
		if !o.pinned[at] {
			size += j.meter.est.Tokens(item)
		}
		if j.meter.size(size) > s.Tokens {
			break
		}
		if at <= cut && o.whole[at] && j.meter.size(size+o.extra(j, at)) <= s.Tokens {
			cut = at
		}
	}
	return pick(j.Items, o.keep(cut)), nil
}

func (s Window) check() error {
	if s.Tokens < 1 {
		return &ConfigError{"Strategy", fmt.Sprintf("Window.Tokens is %d, at least 1 is needed", s.Tokens)}
	}
	return nil
}

// pinnedSize returns the estimated size of the pinned items.
func (o outline) pinnedSize(j *Job) (sum int64) {
	for i, it := range o.items {
		if o.pinned[i] {
			sum += j.meter.est.Tokens(it)
		}
	}
	return sum
}

// extra returns the estimated size of the unpinned items before s that keep(s) marks.
func (o outline) extra(j *Job, s int) (sum int64) {
	from, to := o.opening(s)
	for i := min(from, o.from); i < min(s, max(to, o.to)); i++ {
		if !o.pinned[i] && (from <= i && i < to || o.from <= i && i < o.to) {
			sum += j.meter.est.Tokens(o.items[i])
		}
	}
	return sum
}
