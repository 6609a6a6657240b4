package content_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/turnlog/turnlog/content"
)

func TestOrderFindsEveryElementUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	names := make([]string, 300)
	for i := range names {
		names[i] = strconv.Itoa(r.IntN(250)) // some occur twice
	}
	of := func(i int) string { return names[i] }
	var o content.Order
	removed := map[string]bool{}
	for i := range names {
		o.Add(i, of)
	}
	for n, i := range r.Perm(len(names)) {
		if n%3 == 0 {
			o.Remove(names[i], of)
			removed[names[i]] = true
		}
	}
	for _, name := range names {
		want := slices.Index(names, name)
		if removed[name] {
			want = -1
		}
		if got := o.Find(name, of); got != want {
			t.Errorf("Find(%s) = %d, want %d", name, got, want)
		}
	}
}
