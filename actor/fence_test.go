package actor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/task"
	"github.com/turnlog/turnlog/tool"
)

// TestWhatAReplacedDriverPublishesLateIsNotRun has the task of a driver arrive long after
// another one took its session over: its network had held it back.
func TestWhatAReplacedDriverPublishesLateIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ran := make(map[content.Place]int)
		release := make(chan struct{})
		w.workerOf(tool.Spec{Name: "echo"}, func(x task.Task) tool.Result {
			ran[x.Place]++
			if x.Place == "t1-r1-c1" {
				<-release
			}
			return echoed(x)
		})
		first := w.node("n1")
		s := w.start("s", oneCall)
		began := content.TimeOf(time.Now())
		w.submit(s, "go")
		w.until("s", events.KindToolDispatched)
		synctest.Wait()
		second := w.node("n2")
		first.crash(t)
		<-time.After(20 * time.Second) // n2 has it by now, with the call open
		close(release)
		late := task.Task{Session: "s", Place: "t1-r1-c2", Attempt: 1, Queue: "q", Tool: "echo", Input: []byte(`{}`), Epoch: 1, Decided: began}
		if err := w.cell.Tasks().Dispatch(w.ctx, late); err != nil {
			t.Fatal(err)
		}
		if got := w.finish(s); got.Text() != `{"text":"hi"}` {
			t.Errorf("answer = %q", got.Text())
		}
		synctest.Wait()
		if ran["t1-r1-c1"] != 1 || ran["t1-r1-c2"] != 0 {
			t.Errorf("calls ran %v, want the first one, once", ran)
		}
		second.drain(t)
	})
}

// TestATaskThatIsDroppedBehindTheLookIsPublishedAgain: a worker looked for the fence
// before the driver had let the task through, and took it off its queue when the driver
// had found it there. Its wake came while the driver had the session.
func TestATaskThatIsDroppedBehindTheLookIsPublishedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		spec := tool.Spec{Name: "echo"}
		if err := w.cell.Catalog().Advertise(w.ctx, jetstream.Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{spec}}); err != nil {
			t.Fatal(err)
		}
		first := w.node("n1")
		s := w.startWith("s", oneCall, func(c *events.Config) {
			c.Routes = []events.RouteRule{{Tool: "echo", Route: content.Background}}
		})
		w.submit(s, "go")
		w.until("s", events.KindToolDetached)
		<-time.After(time.Second) // n1 recorded its token
		second := w.node("n2", func(c *actor.Config) { c.Idle = 10 * time.Second })
		first.crash(t)
		<-time.After(5 * time.Second) // n2 has found the task
		if _, err := w.connect().RequestWithContext(w.ctx, "$JS.API.STREAM.PURGE.TURNLOG_TASKS", nil); err != nil {
			t.Fatal(err)
		}
		w.until("s", events.KindParked)
		ran := make(chan struct{}, 10)
		w.workerOf(spec, func(x task.Task) tool.Result {
			ran <- struct{}{}
			return echoed(x)
		})
		select {
		case <-ran:
		case <-time.After(5 * time.Minute):
			t.Error("a call that is owed is on no queue, and nobody drives its session")
		}
		second.drain(t)
	})
}
