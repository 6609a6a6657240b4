package shop

import "testing"

func TestTotal(t *testing.T) {
	for count, want := range map[int]int{0: 0, 1: 100, 9: 900, 10: 900, 11: 990} {
		if got := Total([]Line{{Name: "tea", Cents: 100, Count: count}}); got != want {
			t.Errorf("%d pieces cost %d cents, want %d", count, got, want)
		}
	}
}
