package trials

import (
	"fmt"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/sparselog"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func newCell(t *testing.T) *jetstream.Cell {
	t.Helper()
	c, err := jetstream.Open(natstest.Connect(t, natstest.Start(t)), "")
	natstest.Must(t, err)
	natstest.Must(t, admin.Of(c).Provision(t.Context(), admin.Config{Memory: true}))
	return c
}

// A stream that does not answer keeps a node from removing its notes and from reading its sessions. The
// session is not to blame, except for a note of another process with the node's name.
func TestANoteOfAProcessThatLivesIsNoBreakage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		processes := 0
		node := func() *Node {
			processes++
			return New(c, "n1", fmt.Sprint("process", processes), new(sparselog.Log))
		}
		n := node()
		for range 4 {
			d := n.Of("s", zap.NewNop())
			if d.Look(t.Context()) {
				t.Fatal("it is set aside although its node lives")
			}
			d.Start(t.Context(), false) // the note stays
			d.over()
		}
		for i := range 2 {
			d := node().Of("s", zap.NewNop())
			if aside := d.Look(t.Context()); aside != (i == 1) {
				t.Errorf("after %d processes it is set aside: %t", i+1, aside)
			}
			d.Start(t.Context(), false)
		}
	})
}

// The streams do not answer for a while. Nodes cannot remove their notes, lose their leases, and go on.
func TestANodeThatAnswersWasNotBroken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		taken := func(node string) *Trial {
			return New(c, node, node+"-process", new(sparselog.Log)).Of("s", zap.NewNop())
		}
		answer := func(node, process string) {
			natstest.Must(t, c.Nodes().Answer(t.Context(), node, process, func() []jetstream.HeldToken { return nil }))
		}
		for i := range 4 {
			node := fmt.Sprint("n", i)
			d := taken(node)
			if d.Look(t.Context()) {
				t.Fatalf("it is set aside after %d nodes that answer", i)
			}
			answer(node, node+"-process")
			d.Start(t.Context(), false) // the note stays
		}
		for i, node := range []string{"x1", "x2"} {
			d := taken(node)
			if d.Look(t.Context()) {
				t.Fatalf("it is set aside after %d nodes that died", i)
			}
			d.Start(t.Context(), false)
			answer(node, "restarted")
		}
		if !taken("last").Look(t.Context()) {
			t.Error("it is not set aside after two nodes that died, because other processes have their names")
		}
	})
}

// Nodes are killed one after another while a session is taken over. It is to blame if nothing else was
// taken over at the same time. Otherwise, as when a stream does not answer and all takeovers wait, it is
// to blame only after more nodes.
func TestABreakageThatOthersMayHaveCausedCountsLess(t *testing.T) {
	t.Parallel()
	const alone, crowd = true, false
	for _, x := range []struct {
		takeovers []bool
		aside     bool
	}{
		{[]bool{crowd, alone}, true},
		{[]bool{alone, alone}, true},
		{[]bool{crowd, crowd}, false},
		{[]bool{alone, crowd}, false},
		{[]bool{crowd, crowd, crowd}, false},
		{[]bool{crowd, crowd, alone}, true},
		{[]bool{crowd, crowd, crowd, crowd}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCell(t)
			taken := func(i int) *Trial {
				return New(c, fmt.Sprint("n", i), fmt.Sprint("process", i), new(sparselog.Log)).Of("s", zap.NewNop())
			}
			for i, alone := range x.takeovers {
				d := taken(i)
				if d.Look(t.Context()) {
					t.Fatalf("%v: it is set aside after %d", x.takeovers, i)
				}
				if !alone && i > 0 { // the first one is among others in any case
					natstest.Must(t, d.node.takeovers.Acquire(t.Context(), 1))
				}
				d.Start(t.Context(), false) // and then its node ends
			}
			if got := taken(len(x.takeovers)).Look(t.Context()); got != x.aside {
				t.Errorf("after %v it is set aside: %v, want %v", x.takeovers, got, x.aside)
			}
		})
	}
}
