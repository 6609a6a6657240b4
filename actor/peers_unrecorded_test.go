package actor_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/internal/testing/celltest"
)

// TestATokenThatIsNotRecordedIsHandedOn: the others were told when they asked whether it
// lives.
func TestATokenThatIsNotRecordedIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := map[string]*celltest.Process{"n1": w.node("n1"), "n2": w.node("n2"), "n3": w.node("n3")}
		<-time.After(time.Second)                                                         // their first records are written
		w.reset("KV_TURNLOG_NODES", func(cfg map[string]any) { cfg["max_msg_size"] = 1 }) // they can still be read
		w.thinking("s")
		<-time.After(2 * time.Second)
		first := w.owners("s")[0]
		nodes[first].Crash(t)
		delete(nodes, first)
		<-time.After(3 * time.Second)
		took := w.owners("s")
		if len(took) != 2 || took[1] == first {
			t.Errorf("driven by %v 3 s after the crash of %s", took, first)
		}
		<-time.After(5 * time.Second) // the dead node's record is still there, and theirs lack the session
		if got := w.owners("s"); !slices.Equal(got, took) {
			t.Errorf("driven by %v later on: it was taken from who has it", got)
		}
		for _, n := range nodes {
			n.Drain(t)
		}
	})
}
