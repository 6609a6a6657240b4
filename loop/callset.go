package loop

import (
	"slices"

	"github.com/turnlog/turnlog/content"
)

// CallSet holds the ids of all calls that a session ever made. Forks share it: what
// is sorted never changes, and what is recent is only appended to.
type CallSet struct {
	Sorted []content.CallID
	Recent []content.CallID
}

// recentCalls is how many ids wait to be sorted in, so that one in so many pays
// for a copy.
const recentCalls = 64

// Has reports whether a call has the id.
func (c *CallSet) Has(id content.CallID) bool {
	_, found := slices.BinarySearch(c.Sorted, id)
	return found || slices.Contains(c.Recent, id)
}

func (c *CallSet) add(id content.CallID) {
	c.Recent = append(c.Recent, id)
	if len(c.Recent) < recentCalls {
		return
	}
	c.Sorted, c.Recent = inserted(c.Sorted, slices.Sorted(slices.Values(c.Recent))), nil
}

// inserted returns both in order. What is between two of the few is copied at once: to
// sort all of them anew made long sessions slower with each call.
func inserted(many, few []content.CallID) []content.CallID {
	all := make([]content.CallID, 0, len(many)+len(few))
	for _, id := range few {
		n, _ := slices.BinarySearch(many, id)
		all = append(append(all, many[:n]...), id)
		many = many[n:]
	}
	return append(all, many...)
}
