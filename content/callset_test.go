package content_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/turnlog/turnlog/content"
)

func TestCallSetHasEveryCall(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var ids []content.CallID
	for i := range 1000 {
		ids = append(ids, content.CallID(fmt.Sprint("c", i)))
	}
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var set content.CallSet
	for i, id := range ids[:900] {
		old := set
		set.Add(id)
		if old.Has(id) || !set.Has(id) {
			t.Fatalf("call %d: the copy from before has %s: %v, the set: %v", i+1, id, old.Has(id), set.Has(id))
		}
	}
	for i, id := range ids {
		if got := set.Has(id); got != (i < 900) {
			t.Fatalf("Has(%s), call %d of 900: %v", id, i+1, got)
		}
	}
}

func TestCallSetFindsNames(t *testing.T) {
	t.Parallel()
	var set content.CallSet
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprint("c", i), fmt.Sprint("c", i, "-0"), fmt.Sprint("c", i, "_"))
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i, name := range names {
		if got := set.Named(name); got != "" {
			t.Fatalf("Named(%s) = %q before it is there", name, got)
		}
		set.Add(content.CallID(fmt.Sprint(name, " ", i)))
	}
	for i, name := range names {
		if got, want := set.Named(name), fmt.Sprint(name, " ", i); got != want {
			t.Fatalf("Named(%s) = %q, want %q", name, got, want)
		}
	}
}
