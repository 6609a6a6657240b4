package compact

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/turnlog/turnlog/content"
)

// KeepRecent keeps the newest items and drops older ones. It keeps more if a cut would
// separate a call from its result, or an answer from its question. Set one field.
type KeepRecent struct {
	Items  int   // at least this many, not counting items that are always kept
	Turns  int   // each run of input begins a turn
	Tokens int64 // as many as fit together with the items that are always kept; at least the last item
}

// Name returns window for a limit in tokens, otherwise keep_recent.
func (s KeepRecent) Name() string {
	if s.Tokens > 0 {
		return "window"
	}
	return "keep_recent"
}

// Compact drops older items.
func (s KeepRecent) Compact(_ context.Context, j *Job) ([]content.Item, error) {
	o := j.outline()
	return pick(j.Items, o.keep(s.cut(j, o))), nil
}

// cut returns the start of the recent items.
func (s KeepRecent) cut(j *Job, o outline) int {
	switch {
	case s.Turns > 0:
		return o.cutBefore(o.turns(s.Turns))
	case s.Items > 0:
		return o.cutBefore(o.recent(s.Items))
	case j.Tokens(j.Items) <= s.Tokens:
		return 0
	}
	return o.cutBefore(sort.Search(max(len(o.items)-1, 0), func(i int) bool {
		return j.Tokens(pick(o.items, o.keep(o.cutBefore(i)))) <= s.Tokens
	}))
}

func (s KeepRecent) check() error {
	all := []int64{int64(s.Items), int64(s.Turns), s.Tokens}
	slices.Sort(all)
	if all[0] < 0 || all[1] > 0 || all[2] == 0 {
		return fmt.Errorf("KeepRecent keeps %d items, %d turns, %d tokens: set one of them", s.Items, s.Turns, s.Tokens)
	}
	return nil
}

// recent returns the start of the n newest items that are not pinned.
func (o outline) recent(n int) int {
	i := len(o.items)
	for ; i > 0 && n > 0; i-- {
		if !o.pinned[i-1] {
			n--
		}
	}
	return i
}

// turns returns the start of the n newest turns.
func (o outline) turns(n int) int {
	from := len(o.items)
	for ; n > 0 && from > 0; n-- {
		from, _ = lastRun(o.items[:from], input)
	}
	return from
}
