package actor

import (
	"fmt"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

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
