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
	all := slices.Concat(c.Sorted, c.Recent)
	slices.Sort(all)
	c.Sorted, c.Recent = all, nil
}
