package actor_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/rewind"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/schedules"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// diskWorld is a world whose streams can be rolled back.
type diskWorld struct {
	*world
	cfg  admin.Config
	kept *rewind.Backup
}

// losing runs a test twice: with a stream that goes back to what keep kept, and with one that is
// deleted and created again.
func losing(t *testing.T, stream string, test func(t *testing.T, w *diskWorld, lose func())) {
	t.Helper()
	for _, how := range []string{"restored", "recreated"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newDiskWorld(t, dir)
				w.keep(stream)
				test(t, w, func() {
					if how == "restored" {
						if err := w.kept.Restore(w.Ctx, w.Conn); err != nil {
							t.Fatal(err)
						}
						return
					}
					w.recreate(stream)
				})
			})
		})
	}
}

// newDiskWorld returns a world whose streams are in files below dir.
func newDiskWorld(t *testing.T, dir string) *diskWorld {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
	t.Cleanup(cancel)
	srv, err := embedded.Start(ctx, embedded.WithStore(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		synctest.Wait()
		srv.Close()
	})
	w := &diskWorld{cfg: admin.Config{Queues: []admin.QueueConfig{{Name: turnlogtest.Queue}}}}
	w.world = &world{turnlogtest.On(ctx, t, srv, w.cfg)}
	return w
}

// keep makes the backup that is restored later.
func (w *diskWorld) keep(stream string) {
	w.T.Helper()
	var err error
	if w.kept, err = rewind.Keep(w.Ctx, w.Conn, stream); err != nil {
		w.T.Fatal(err)
	}
}

func (w *diskWorld) recreate(stream string) {
	w.T.Helper()
	if _, err := w.Conn.RequestWithContext(w.Ctx, "$JS.API.STREAM.DELETE."+stream, nil); err != nil {
		w.T.Fatal(err)
	}
	if err := admin.Of(w.Cell).Provision(w.Ctx, w.cfg); err != nil {
		w.T.Fatal(err)
	}
}

// inputs returns the texts of the input that a session has queued.
func (w *diskWorld) inputs(id content.SessionID) (out []string) {
	for _, q := range turnlogtest.Facts[events.InputQueued](w.Deployment, id) {
		for _, it := range q.Items {
			out = append(out, it.Text())
		}
	}
	return out
}

// advertise offers a tool without a worker.
func (w *diskWorld) advertise(spec tool.Spec) {
	w.T.Helper()
	offer := jetstream.Offer{Worker: "w", Queue: turnlogtest.Queue, Tools: []tool.Spec{spec}}
	if err := w.Cell.Catalog().Advertise(w.Ctx, offer); err != nil {
		w.T.Fatal(err)
	}
}

// echo returns a tool for real workers, which does something.
func (w *diskWorld) echo(do func(), opts ...tool.Option) tool.Tool {
	w.T.Helper()
	type said struct {
		Text string `json:"text"`
	}
	x, err := tool.CallFunc("echo", "Echoes.", func(_ context.Context, _ tool.Call, s said) (string, error) {
		do()
		return s.Text, nil
	}, opts...)
	if err != nil {
		w.T.Fatal(err)
	}
	return x
}

func TestASessionReadsItsInboxAfterItLostCommands(t *testing.T) {
	t.Parallel()
	for _, parked := range []bool{true, false} {
		losing(t, "TURNLOG_INBOX", func(t *testing.T, w *diskWorld, lose func()) {
			n := w.node("n1")
			s := w.Start("s", oneReply)
			rest := func() {
				if parked {
					<-time.After(5 * time.Second)
				}
			}
			w.submit(s, "one")
			w.finish(s)
			w.keep("TURNLOG_INBOX")
			for _, text := range []string{"two", "three"} {
				rest()
				w.submit(s, text)
				w.finish(s)
			}
			rest()
			lose()
			<-time.After(time.Second)
			for _, text := range []string{"four", "five"} {
				w.submit(s, text)
				w.finish(s)
				rest()
			}
			<-time.After(time.Minute)
			if got := w.inputs("s"); !slices.Equal(got, []string{"one", "two", "three", "four", "five"}) {
				t.Errorf("inputs = %q", got)
			}
			if any, err := w.Cell.Inbox().HasAny(w.Ctx, "s"); any || err != nil {
				t.Errorf("inbox at rest: %v, %v", any, err)
			}
			n.Drain(t)
		})
	}
}

func TestATimerIsArmedAgainAfterItWasLost(t *testing.T) {
	t.Parallel()
	losing(t, "TURNLOG_TIMERS", func(t *testing.T, w *diskWorld, lose func()) {
		x := allTimed()["approval"]
		n := x.begin(w.world)("n1")
		x.wait(w.world)
		<-time.After(5 * time.Second)
		lose()
		began := time.Now()
		w.Until("s", x.comes)
		if took := time.Since(began); took > x.after+time.Minute {
			t.Errorf("the timer took effect after %v, want %v", took, x.after)
		}
		x.outcome(t, w.world)
		n.Drain(t)
	})
}

func TestACallIsDispatchedAgainAfterItsTaskWasLost(t *testing.T) {
	t.Parallel()
	for _, spec := range []tool.Spec{
		{Name: "echo", Effects: content.ReadOnly, Timeout: time.Hour},
		{Name: "echo", Effects: content.ReadOnly, Timeout: time.Hour, Route: content.Background}, // its session parks
	} {
		losing(t, "TURNLOG_TASKS", func(t *testing.T, w *diskWorld, lose func()) {
			w.advertise(spec)
			n := w.node("n1")
			w.submit(w.Start("s", callThenTalk), "go")
			w.Until("s", events.KindToolDispatched)
			<-time.After(5 * time.Second)
			lose()
			<-time.After(time.Second)
			w.workerOf(spec, echoed)
			began := time.Now()
			w.Until("s", events.KindToolResultReceived)
			if took := time.Since(began); took > time.Minute {
				t.Errorf("the call took %v", took)
			}
			n.Drain(t)
		})
	}
}

// TestACallThatMustNotRunTwiceDoesNotWhenItsTaskWasLost has a worker that runs the call while the
// queue loses its task.
func TestACallThatMustNotRunTwiceDoesNotWhenItsTaskWasLost(t *testing.T) {
	t.Parallel()
	losing(t, "TURNLOG_TASKS", func(t *testing.T, w *diskWorld, lose func()) {
		var runs atomic.Int32
		running, finish := make(chan struct{}, 2), make(chan struct{})
		spec := tool.Spec{Name: "echo", Effects: content.Once, Timeout: time.Hour}
		for range 2 {
			w.workerOf(spec, func(x task.Task) tool.Result {
				runs.Add(1)
				running <- struct{}{}
				<-finish
				return echoed(x)
			})
		}
		n := w.node("n1")
		w.submit(w.Start("s", callThenTalk), "go")
		<-running
		lose()
		<-time.After(2 * time.Minute)
		close(finish)
		w.Until("s", events.KindToolResultReceived)
		<-time.After(time.Minute)
		if got := runs.Load(); got != 1 {
			t.Errorf("the call ran %d times", got)
		}
		n.Drain(t)
	})
}

// TestACallThatMustNotRunTwiceDoesNotWhenItsTaskIsBack has a worker that ran the call before the queue got
// its task back, or lost the call's report together with its driver.
func TestACallThatMustNotRunTwiceDoesNotWhenItsTaskIsBack(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"TURNLOG_TASKS", "TURNLOG_INBOX"} {
		losing(t, stream, func(t *testing.T, w *diskWorld, lose func()) {
			w.advertise(tool.Spec{Name: "echo", Effects: content.Once, Timeout: time.Hour})
			n := w.node("n1")
			w.submit(w.Start("s", callThenTalk), "go")
			w.Until("s", events.KindToolDispatched)
			<-time.After(time.Second)
			w.keep(stream)
			if stream == "TURNLOG_INBOX" {
				n.Crash(t)
			}
			var runs atomic.Int32
			echo := w.echo(func() { runs.Add(1) })
			w.Worker("w", worker.Config{}, func(*nats.Conn) []tool.Tool { return []tool.Tool{echo} })
			<-time.After(time.Second)
			lose()
			if stream == "TURNLOG_INBOX" {
				n = w.node("n2")
			}
			w.Until("s", events.KindToolResultReceived)
			<-time.After(5 * time.Minute)
			if got := runs.Load(); got != 1 {
				t.Errorf("%s: the call ran %d times", stream, got)
			}
			n.Drain(t)
		})
	}
}

// A queue that lost a task confirms extensions of its lease, but not its end.
func TestAWorkerGoesOnAfterItsTaskWasLost(t *testing.T) {
	t.Parallel()
	losing(t, "TURNLOG_TASKS", func(t *testing.T, w *diskWorld, lose func()) {
		running, finish := make(chan struct{}, 10), make(chan struct{})
		echo := w.echo(func() {
			running <- struct{}{}
			<-finish
		}, tool.ReadOnly())
		w.Worker("w", worker.Config{Slots: 1}, func(*nats.Conn) []tool.Tool { return []tool.Tool{echo} })
		n := w.node("n1")
		first, second := w.Start("first", callThenTalk), w.Start("second", callThenTalk)
		w.submit(first, "go")
		<-running
		lose()
		close(finish)
		began := time.Now()
		w.submit(second, "go")
		w.finish(second)
		w.finish(first)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the next call took %v", took)
		}
		n.Drain(t)
	})
}

func TestSessionsWakeAfterRunTokensWereLost(t *testing.T) {
	t.Parallel()
	losing(t, "TURNLOG_RUN", func(t *testing.T, w *diskWorld, lose func()) {
		n := w.node("n1")
		idle, busy := w.Start("idle", oneReply), w.Start("busy", "replies:\n  - text: ok\n    delay: 1m\n    repeat: true\n")
		w.submit(idle, "one")
		w.finish(idle)
		<-time.After(5 * time.Second)
		w.submit(busy, "one")
		w.Until("busy", events.KindModelCallStarted)
		lose()
		<-time.After(time.Second)
		w.submit(idle, "two")
		w.finish(idle)
		w.submit(busy, "two")
		<-time.After(5 * time.Minute)
		for _, id := range []content.SessionID{"idle", "busy"} {
			if got := w.inputs(id); !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("inputs of %s = %q", id, got)
			}
			if got := len(turnlogtest.Facts[events.TurnFinished](w.Deployment, id)); got == 0 {
				t.Errorf("%s finished %d turns", id, got)
			}
		}
		n.Drain(t)
	})
}

// TestAScheduleFiresOnceAfterItsStreamWentBack restores a backup in which the last firings are not
// handled yet.
func TestAScheduleFiresOnceAfterItsStreamWentBack(t *testing.T) {
	t.Parallel()
	losing(t, "TURNLOG_SCHEDULES", func(t *testing.T, w *diskWorld, lose func()) {
		n := w.node("n1")
		s := w.Start("s", oneReply)
		w.submit(s, "hello")
		w.finish(s)
		p := remind("often", often(), "s", "again")
		w.add(p)
		<-time.After(3 * time.Minute)
		w.keep("TURNLOG_SCHEDULES")
		<-time.After(10 * time.Minute) // five more firings
		for range 70 {                 // more entries than the core remembers causes of
			w.submit(s, "more")
			w.finish(s)
		}
		lose()
		if o, _, err := schedules.Of(w.Cell).Outcome(w.Ctx, "often"); err != nil || o.Result == "" {
			w.add(p) // the stream was created again
		}
		<-time.After(4 * time.Minute)
		got := len(slices.DeleteFunc(w.inputs("s"), func(text string) bool { return text != "again" }))
		if got != 8 {
			t.Errorf("the schedule sent its input %d times, want 8: once for each time", got)
		}
		if o := w.outcome("often"); o.Result != schedule.Started {
			t.Errorf("outcome = %+v", o)
		}
		n.Drain(t)
	})
}
