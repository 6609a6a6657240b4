package compact

import (
	"slices"

	"github.com/turnlog/turnlog/content"
)

// outline describes where a transcript may be cut and which items are always kept.
type outline struct {
	items  []content.Item
	pinned []bool
	whole  []bool // a cut before this index splits no reply, no input, and no call from its result
}

func (j *Job) outline() outline {
	o := outline{items: j.Items, whole: cuts(j.Items)}
	for _, it := range j.Items {
		o.pinned = append(o.pinned, pinned(it))
	}
	return o
}

// cuts marks where a transcript may be cut. A run of Assistant items is one reply, and a run
// of input items belongs together too.
func cuts(items []content.Item) []bool {
	whole := slices.Repeat([]bool{true}, len(items)+1)
	called := make(map[content.CallID]int)
	for i, it := range items {
		if i > 0 && (sameReply(items[i-1], it) || input(items[i-1]) && input(it)) {
			whole[i] = false
		}
		for _, c := range it.Calls() {
			called[c.ID] = i
		}
		if it.Kind == content.Notification {
			continue // about a call that has its result
		}
		for _, r := range it.Results() {
			if at, ok := called[r.CallID]; ok {
				for n := at + 1; n <= i; n++ {
					whole[n] = false
				}
			}
		}
	}
	return whole
}

// sameReply reports whether next continues the reply of it. A provider's compaction ends a
// reply.
func sameReply(it, next content.Item) bool {
	return it.Kind == content.Assistant && next.Kind == content.Assistant && it.FinishReason != content.Compaction
}

// newestInput returns the last run of User items; an empty range if there is none.
func newestInput(items []content.Item) (from, to int) {
	return lastRun(items, func(it content.Item) bool { return it.Kind == content.User })
}

func lastRun(items []content.Item, sort func(content.Item) bool) (from, to int) {
	to = len(items)
	for to > 0 && !sort(items[to-1]) {
		to--
	}
	from = to
	for from > 0 && sort(items[from-1]) {
		from--
	}
	return from, to
}

func input(it content.Item) bool { return it.Kind == content.User || it.Kind == content.Notification }

// cutBefore returns the last possible cut at or before i.
func (o outline) cutBefore(i int) int {
	for !o.whole[i] {
		i--
	}
	return i
}

// opening returns the run of input to which the items from s on respond, if it is before s.
func (o outline) opening(s int) (from, to int) {
	first := s
	for first < len(o.items) && o.pinned[first] {
		first++
	}
	if first == len(o.items) || o.items[first].Kind != content.Assistant && o.items[first].Kind != content.Tool {
		return s, s
	}
	return lastRun(o.items[:s], input)
}

// keep marks the items that remain if the transcript is cut at s.
func (o outline) keep(s int) []bool {
	keep := slices.Clone(o.pinned)
	mark := func(from, to int) {
		for i := from; i < to; i++ {
			keep[i] = true
		}
	}
	mark(s, len(o.items))
	mark(newestInput(o.items))
	mark(o.opening(s))
	return keep
}

func pick(items []content.Item, keep []bool) []content.Item {
	var out []content.Item
	for i, it := range items {
		if keep[i] {
			out = append(out, it)
		}
	}
	if len(out) == len(items) {
		return items
	}
	return out
}

// newestReply returns the start of the last reply; len(items) if there is none.
func newestReply(items []content.Item) int {
	i := len(items) - 1
	for i >= 0 && items[i].Kind != content.Assistant {
		i--
	}
	if i < 0 {
		return len(items)
	}
	for i > 0 && sameReply(items[i-1], items[i]) {
		i--
	}
	return i
}

// open returns the start of the tool rounds that a model still works on: the run of replies
// and results that ends with the newest reply.
func open(items []content.Item) int {
	i := newestReply(items)
	calls := slices.ContainsFunc(items[i:], func(it content.Item) bool { return len(it.Calls()) > 0 })
	for calls && i > 0 && (items[i-1].Kind == content.Assistant || items[i-1].Kind == content.Tool) {
		i--
	}
	return i
}
