package sample

import (
	"slices"
	"testing"
)

func TestUnsetNamesTheMissingFields(t *testing.T) {
	t.Parallel()
	type inner struct{ A, B int }
	type outer struct {
		P    *inner
		List []inner
		I    any
		N    *inner
	}
	got := Unset(outer{P: &inner{A: 1}, List: []inner{{}, {B: 2}}, I: inner{}})
	if want := []string{"sample.outer.N"}; !slices.Equal(got, want) {
		t.Errorf("Unset = %v, want %v", got, want)
	}
	if got := Unset(struct{ X inner }{}); len(got) != 3 {
		t.Errorf("Unset = %v", got)
	}
}
