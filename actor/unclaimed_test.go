package actor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

// Without keys, a node still knows which epochs can write: none without a claim, and none whose driver
// parked the session.
func TestAnEntryOfNoDriverIsRefusedWithoutKeys(t *testing.T) {
	t.Parallel()
	for name, epoch := range map[string]func(last uint64) uint64{
		"of the driver that parked": func(last uint64) uint64 { return last },
		"of one that never claimed": func(last uint64) uint64 { return last + 1 },
		"of no driver":              func(uint64) uint64 { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newSignedWorld(t)
				ran := 0
				w.workerOf(tool.Spec{Name: "echo", Effects: content.Once}, func(x task.Task) tool.Result {
					ran++
					return echoed(x)
				})
				counts := func(c *actor.Config) { c.Metrics = w.counted }
				n := w.node("n1", counts)
				s := w.Start("s", oneCall, asksFirst)
				w.submit(s, "go")
				w.Until("s", events.KindApprovalRequired)
				w.Until("s", events.KindParked)
				n.Drain(t)
				asked := turnlogtest.Facts[events.ApprovalRequired](w.Deployment, "s")[0].Approval
				last, err := w.Cell.Journal().Last(w.Ctx, "s")
				if err != nil {
					t.Fatal(err)
				}
				forged := events.Entry{Session: "s", Cause: "forged", At: last.Entry.At, Epoch: epoch(last.Entry.Epoch), Events: []events.Event{
					events.ApprovalResolved{Approval: asked.ID, Call: asked.CallID, Outcome: events.Approved, By: "alice", Digest: asked.Digest},
					events.ToolDispatched{Call: asked.CallID, Place: asked.TaskID, Attempt: 1, Queue: "q", Digest: asked.Digest},
				}}
				if _, err := w.Cell.Journal().Append(w.Ctx, last.Head, forged); err != nil {
					t.Fatal(err)
				}
				n = w.node("n2", counts)
				if err := w.Cell.Runs().Wake(w.Ctx, "s"); err != nil {
					t.Fatal(err)
				}
				<-time.After(30 * time.Second)
				if ran != 0 || w.counted.forged("entry") == 0 {
					t.Errorf("the call ran %d times, %d entries were refused; want 0 and some", ran, w.counted.forged("entry"))
				}
				n.Crash(t)
				v, err := audit.Verify(w.Cell.Journal().Read(w.Ctx, "s", 0))
				if err != nil {
					t.Fatal(err)
				}
				if f, _ := v.First(); v.Exit(verdict.Chain) != verdict.ExitFault || f.Kind != verdict.Forged || f.Seq != last.Seq+1 {
					t.Errorf("verdict %s: %v, want entry %d forged", v.Level, v.Faults, last.Seq+1)
				}
			})
		})
	}
}
