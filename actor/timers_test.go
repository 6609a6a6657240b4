package actor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker/task"
)

// long is how long most sessions wait for a timer. It is not a whole number of minutes: drivers that wait look around
// after each one.
const long = 150 * time.Second

// timed is a session in which a timer decides something.
type timed struct {
	spec    tool.Spec // of the tool, which never answers
	script  string
	config  func(*events.Config)
	waits   events.Kind   // recorded once it waits for the timer
	comes   events.Kind   // recorded when the timer fires
	after   time.Duration // how long it waits
	asks    bool          // a person is asked
	parks   bool          // while it waits
	outcome func(*testing.T, *world)
}

const callThenTalk = "replies:\n  - calls: [{name: echo, input: {text: hi}}]\n  - text: ok\n    repeat: true\n"

func allTimed() map[string]timed {
	return map[string]timed{
		"approval": {
			script: callThenTalk, asks: true, parks: true, waits: events.KindApprovalRequired, comes: events.KindApprovalResolved, after: long,
			outcome: func(t *testing.T, w *world) {
				for _, r := range turnlogtest.Facts[events.ApprovalResolved](w.Deployment, "s") {
					if r.Outcome != events.Expired {
						t.Errorf("outcome = %s, want expired", r.Outcome)
					}
				}
			},
		},
		"deadline of a call in the background": {
			spec:   tool.Spec{Route: content.Background, Timeout: long},
			script: callThenTalk, parks: true, waits: events.KindTurnFinished, comes: events.KindToolResultReceived, after: long + lostWorker,
			outcome: timedOut,
		},
		"deadline of a call": {
			spec:   tool.Spec{Timeout: long},
			script: callThenTalk, waits: events.KindToolDispatched, comes: events.KindToolResultReceived, after: long + lostWorker,
			outcome: timedOut,
		},
		"detach": {
			spec:   tool.Spec{Route: content.DetachSoon, DetachAfter: long, Timeout: time.Hour},
			script: callThenTalk, waits: events.KindToolDispatched, comes: events.KindToolDetached, after: long,
		},
		"wall clock": {
			spec:   tool.Spec{Timeout: time.Hour},
			config: func(c *events.Config) { c.Limits.WallClock = long },
			script: callThenTalk, waits: events.KindToolDispatched, comes: events.KindLimitReached, after: long,
		},
		"retry": {
			script: "replies:\n  - text: ok\n    error: {class: rate_limit, message: wait, retry_after: 150s, attempts: 1}\n",
			waits:  events.KindModelCallFailed, comes: events.KindTurnFinished, after: long,
		},
	}
}

func timedOut(t *testing.T, w *world) {
	for _, r := range turnlogtest.Facts[events.ToolResultReceived](w.Deployment, "s") {
		if r.Result.Status != content.StatusError || !strings.Contains(r.Result.Text(), "timed out") {
			t.Errorf("result = %s, %s; want a timeout", r.Result.Status, r.Result.Text())
		}
	}
}

// begin offers the tool and returns a function that starts nodes.
func (x timed) begin(w *world) func(name string) *turnlogtest.Process {
	w.T.Helper()
	if x.spec.Name = "echo"; x.script == callThenTalk {
		w.workerOf(x.spec, func(task.Task) tool.Result {
			<-w.Ctx.Done()
			return tool.Result{}
		})
	}
	return func(name string) *turnlogtest.Process {
		return w.node(name, func(c *actor.Config) {
			c.WorkerPatience = time.Hour // no worker renews the offer
			if x.asks {
				withApprovals(x.after)(c)
			}
		})
	}
}

// wait starts the session and returns when it waits for the timer, parked if it can be.
func (x timed) wait(w *world) {
	w.T.Helper()
	change := x.config
	if change == nil {
		change = func(*events.Config) {}
	}
	w.submit(w.startWith("s", x.script, change), "go")
	w.Until("s", x.waits)
	if x.parks {
		w.Until("s", events.KindParked)
	}
	synctest.Wait()
}

// has reports whether the kind is in the journal.
func (w *world) has(id content.SessionID, k events.Kind) bool {
	w.T.Helper()
	for _, rec := range w.Records(id) {
		if slices.Contains(rec.Entry.Kinds(), k) {
			return true
		}
	}
	return false
}

// armed lists the timers of a session that the server holds.
func (w *world) armed(id content.SessionID) []string {
	w.T.Helper()
	filter := fmt.Appendf(nil, `{"subjects_filter":"turnlog.timer.%s.*"}`, id)
	ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
	defer cancel()
	msg, err := w.Conn.RequestWithContext(ctx, "$JS.API.STREAM.INFO.TURNLOG_TIMERS", filter)
	if err != nil {
		w.T.Fatal(err)
	}
	var info struct {
		State struct {
			Subjects map[string]int `json:"subjects"`
		} `json:"state"`
	}
	if err := json.Unmarshal(msg.Data, &info); err != nil {
		w.T.Fatal(err)
	}
	var out []string
	for s := range info.State.Subjects {
		out = append(out, strings.TrimPrefix(s, "turnlog.timer."+string(id)+"."))
	}
	return out
}

// All nodes die while the session waits for a timer, which fires while there is none.
func TestATimerThatFiredWithoutANodeTakesEffectLater(t *testing.T) {
	t.Parallel()
	for name, x := range allTimed() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				nodes := x.begin(w)
				n := nodes("n1")
				x.wait(w)
				n.Crash(t)
				<-time.After(10 * time.Minute)
				if w.has("s", x.comes) {
					t.Fatalf("%s was recorded without a node", x.comes)
				}
				back := time.Now()
				n = nodes("n2")
				w.Until("s", x.comes)
				if took := time.Since(back); took > time.Minute {
					t.Errorf("%s took %v after a node started", x.comes, took)
				}
				if x.outcome != nil {
					x.outcome(t, w)
				}
				n.Drain(t)
			})
		})
	}
}

// The session is parked, if it can be, or its node is alive.
func TestTimersTakeEffectOnTime(t *testing.T) {
	t.Parallel()
	for name, x := range allTimed() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				n := x.begin(w)("n1")
				began := time.Now()
				x.wait(w)
				if got := len(w.armed("s")); x.parks != (got == 1) {
					t.Errorf("the server holds %d timers of a session, parked %t", got, x.parks)
				}
				w.Until("s", x.comes)
				if took := time.Since(began); took < x.after || took > x.after+5*time.Second {
					t.Errorf("%s after %v, want %v", x.comes, took, x.after)
				}
				if x.outcome != nil {
					x.outcome(t, w)
				}
				n.Drain(t)
			})
		})
	}
}

// lostWorker is how much longer a call's deadline takes: the worker may be about to report it, or
// the queue the loss of the worker.
const lostWorker = 50 * time.Second

func TestATimerTakesEffectWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, x := newWorld(t), allTimed()["approval"]
		w.worker(echoed) // before the node, whose first model call must see the tool
		n := w.node("n1", withApprovals(x.after), func(c *actor.Config) { c.Sweep = time.Hour })
		x.wait(w)
		due := turnlogtest.Facts[events.ApprovalRequired](w.Deployment, "s")[0].Approval.ExpiresAt.Std()
		w.Until("s", events.KindApprovalResolved)
		if late := time.Since(due); late < 0 || late > 1500*time.Millisecond {
			t.Errorf("the approval expired %v late", late)
		}
		n.Drain(t)
	})
}

func TestAnEarlyOrRepeatedTimerHasNoEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, x := newWorld(t), allTimed()["approval"]
		n := x.begin(w)("n1")
		x.wait(w)
		asked := turnlogtest.Facts[events.ApprovalRequired](w.Deployment, "s")[0].Approval
		fire := func(id string, at time.Time) {
			t.Helper()
			env := commands.Envelope{ID: id, Session: "s", Command: commands.ReportTimer{Kind: commands.TimerApproval, ID: string(asked.ID)}}
			if err := w.Cell.Timers().Arm(w.Ctx, "s", id, at, env); err != nil {
				t.Fatal(err)
			}
		}
		fire("early", time.Now().Add(time.Minute))
		<-time.After(2 * time.Minute)
		if got := len(w.owners("s")); got < 2 || w.has("s", events.KindApprovalResolved) {
			t.Fatalf("the early timer woke the session %d times, or decided the approval", got-1)
		}
		w.Until("s", events.KindTurnFinished)
		entries := len(turnlogtest.Facts[events.ApprovalResolved](w.Deployment, "s"))
		fire("again", time.Now().Add(time.Minute))
		<-time.After(2 * time.Minute)
		if got := len(turnlogtest.Facts[events.ApprovalResolved](w.Deployment, "s")); entries != 1 || got != 1 {
			t.Errorf("the approval was resolved %d times, then %d times, want once", entries, got)
		}
		if any, err := w.Cell.Inbox().HasAny(w.Ctx, "s"); any || err != nil {
			t.Errorf("the inbox still holds a command: %v, %v", any, err)
		}
		n.Drain(t)
	})
}

func TestACanceledTimerWakesNoSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.worker(echoed)
		n := w.node("n1", withApprovals(10*time.Minute))
		s := w.Start("s", oneCall)
		w.submit(s, "go")
		w.Until("s", events.KindParked)
		if got := w.armed("s"); len(got) != 1 {
			t.Fatalf("armed: %v, want one timer", got)
		}
		if err := s.Ask(w.Ctx, commands.ResolveApproval{Approve: true}); err != nil {
			t.Fatal(err)
		}
		w.Until("s", events.KindTurnFinished)
		<-time.After(time.Minute) // it parks
		if got := w.armed("s"); len(got) > 0 {
			t.Errorf("armed: %v, want none", got)
		}
		claims := len(w.owners("s"))
		<-time.After(10 * time.Minute)
		if got := len(w.owners("s")); got != claims {
			t.Errorf("the session was woken %d times for nothing", got-claims)
		}
		n.Drain(t)
	})
}

// The cost of parking does not grow with the number of open calls.
func TestManyDeadlinesNeedOneTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 12
		w := newWorld(t)
		x := timed{spec: tool.Spec{Route: content.Background, Timeout: 5 * time.Minute}, script: callThenTalk}
		n := x.begin(w)("n1")
		one := "{name: echo, input: {text: hi}}"
		s := w.Start("s", "replies:\n  - calls: ["+strings.Repeat(one+", ", calls-1)+one+"]\n  - text: ok\n    repeat: true\n")
		w.submit(s, "go")
		w.Until("s", events.KindParked)
		if got := w.armed("s"); len(got) != 1 {
			t.Errorf("armed: %v, want one timer", got)
		}
		n.Crash(t)
		<-time.After(6 * time.Minute)
		n = x.begin(w)("n2")
		for end := time.Now().Add(10 * time.Minute); ; <-time.After(time.Second) {
			got := len(turnlogtest.Facts[events.ToolResultReceived](w.Deployment, "s"))
			if got == calls {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d calls of %d timed out", got, calls)
			}
		}
		n.Drain(t)
	})
}
