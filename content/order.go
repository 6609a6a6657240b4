package content

import (
	"slices"
	"strings"
)

// Order holds indexes of a slice, sorted by the names of its elements, so an element is found by binary search.
// Its methods take a function that returns the name of an element.
type Order []int32

// Find returns the index of the element with that name, or -1.
func (o Order) Find(name string, of func(i int) string) int {
	at, found := o.at(name, of)
	if !found {
		return -1
	}
	return int(o[at])
}

// Add adds the index of an element. Of two elements with the same name, the first one counts.
func (o *Order) Add(i int, of func(i int) string) {
	if at, twice := o.at(of(i), of); !twice {
		*o = slices.Insert(*o, at, int32(i)) //nolint:gosec // no message holds so many elements
	}
}

// Remove removes the index of the element with that name.
func (o *Order) Remove(name string, of func(i int) string) {
	if at, found := o.at(name, of); found {
		*o = slices.Delete(*o, at, at+1)
	}
}

func (o Order) at(name string, of func(i int) string) (at int, found bool) {
	return slices.BinarySearchFunc(o, name, func(i int32, name string) int { return strings.Compare(of(int(i)), name) })
}
