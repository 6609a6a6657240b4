package actor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
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
