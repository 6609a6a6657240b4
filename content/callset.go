package content

import "slices"

// CallSet holds the IDs of all calls that a session ever made. Copies share it: Sorted never
// changes in place, and Recent only grows.
type CallSet struct {
	Sorted []CallID
	Recent []CallID
}

// recentCalls is how many IDs collect before they are merged into Sorted.
const recentCalls = 64

// Has reports whether a call has the ID.
func (c *CallSet) Has(id CallID) bool {
	_, found := slices.BinarySearch(c.Sorted, id)
	return found || slices.Contains(c.Recent, id)
}

// Add adds the ID of a new call.
func (c *CallSet) Add(id CallID) {
	c.Recent = append(c.Recent, id)
	if len(c.Recent) < recentCalls {
		return
	}
	// Merge in one pass: sorting everything again would make each call dearer than the last.
	old, all := c.Sorted, make([]CallID, 0, len(c.Sorted)+len(c.Recent))
	for _, id := range slices.Sorted(slices.Values(c.Recent)) {
		n, _ := slices.BinarySearch(old, id)
		all = append(append(all, old[:n]...), id)
		old = old[n:]
	}
	all = append(all, old...)
	c.Sorted, c.Recent = all, nil
}
