package content

import (
	"slices"
	"strings"
)

// CallSet holds the IDs of all calls that a session ever made. Copies share memory: runs never change, and
// Recent only grows.
type CallSet struct {
	Runs   [][]CallID // each is sorted, and more than twice as long as the next
	Recent []CallID
}

// recentCalls is how many IDs collect before they become a run.
const recentCalls = 64

// Has reports whether a call has the ID.
func (c *CallSet) Has(id CallID) bool {
	for _, run := range c.Runs {
		if _, found := slices.BinarySearch(run, id); found {
			return true
		}
	}
	return slices.Contains(c.Recent, id)
}

// Named returns the ID that begins with a name and a space, or "". A name must have no character that sorts at or
// before a space.
func (c *CallSet) Named(name string) string {
	for _, run := range c.Runs {
		i, found := slices.BinarySearchFunc(run, name, func(id CallID, name string) int { return strings.Compare(id.name(), name) })
		if found {
			return string(run[i])
		}
	}
	if i := slices.IndexFunc(c.Recent, func(id CallID) bool { return id.name() == name }); i >= 0 {
		return string(c.Recent[i])
	}
	return ""
}

func (id CallID) name() string {
	name, _, _ := strings.Cut(string(id), " ")
	return name
}

// Add adds the ID of a new call. An ID is copied a few times while the set grows. With a single run, each call would
// cost more than the last one.
func (c *CallSet) Add(id CallID) {
	c.Recent = append(c.Recent, id)
	if len(c.Recent) < recentCalls {
		return
	}
	runs, last := c.Runs, slices.Sorted(slices.Values(c.Recent))
	for len(runs) > 0 && len(runs[len(runs)-1]) <= 2*len(last) {
		last = merge(runs[len(runs)-1], last)
		runs = runs[:len(runs)-1]
	}
	c.Runs, c.Recent = append(slices.Clip(runs), last), nil
}

// merge returns two sorted runs as one.
func merge(a, b []CallID) []CallID {
	out := make([]CallID, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}
