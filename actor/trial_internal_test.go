package actor

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model"
)

// A stream that does not answer keeps a node from removing its notes, and from its sessions. The session is not to blame, but for
// what another process of the name has left.
func TestANoteOfAProcessThatLivesIsNoBreakage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nc := natstest.Connect(t, natstest.Start(t))
		c, err := jetstream.Open(nc, "")
		natstest.Must(t, err)
		natstest.Must(t, admin.Of(c).Provision(t.Context(), admin.Config{Memory: true}))
		node := func() *Node {
			<-time.After(time.Second)
			n, err := NewNode(c, Config{Name: "n1", Models: func(string, []byte) (model.Model, error) { return nil, nil }})
			natstest.Must(t, err)
			return n
		}
		n := node()
		for range 4 {
			d := newTrial(n, "s", zap.NewNop())
			if d.look(t.Context()) {
				t.Fatal("it is set aside although its node lives")
			}
			d.start(t.Context(), false) // the note stays
			d.over()
		}
		for i := range 2 {
			d := newTrial(node(), "s", zap.NewNop())
			if aside := d.look(t.Context()); aside != (i == 1) {
				t.Errorf("after %d processes it is set aside: %t", i+1, aside)
			}
			d.start(t.Context(), false)
		}
	})
}

// Nodes are killed one after another while a session is taken over. It is to blame if nothing else was
// taken over meanwhile, and else, when a stream does not answer and all takeovers wait, only in the end.
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
			nc := natstest.Connect(t, natstest.Start(t))
			c, err := jetstream.Open(nc, "")
			natstest.Must(t, err)
			natstest.Must(t, admin.Of(c).Provision(t.Context(), admin.Config{Memory: true}))
			taken := func(i int) *trial {
				n := &Node{cell: c, trials: c.Trials(), takeovers: semaphore.NewWeighted(maxTrials), cfg: Config{Name: fmt.Sprint("n", i)}}
				return newTrial(n, content.SessionID("s"), zap.NewNop())
			}
			for i, alone := range x.takeovers {
				d := taken(i)
				if d.look(t.Context()) {
					t.Fatalf("%v: it is set aside after %d", x.takeovers, i)
				}
				if !alone && i > 0 { // the first one is among others in any case
					natstest.Must(t, d.node.takeovers.Acquire(t.Context(), 1))
				}
				d.start(t.Context(), false) // and then its node ends
			}
			if got := taken(len(x.takeovers)).look(t.Context()); got != x.aside {
				t.Errorf("after %v it is set aside: %v, want %v", x.takeovers, got, x.aside)
			}
		})
	}
}
