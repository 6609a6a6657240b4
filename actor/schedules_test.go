package actor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/schedules"
	"github.com/turnlog/turnlog/turnlogtest"
)

// plan is a schedule whose sessions use a scripted model.
func plan(name string, t schedule.Timing, script string) schedule.Schedule {
	return schedule.Schedule{
		Name: name, Timing: t, By: "test", Created: time.Now().UTC(),
		Commands: []commands.Command{commands.OpenSession{
			Config: events.Config{Model: "scripted:test", ModelData: []byte(script)},
			Input:  []content.Item{content.UserText("go")},
		}},
	}
}

// often fires every two minutes: an hour of an idle node in virtual time costs seconds.
func often() schedule.Timing { return schedule.Timing{Cron: "*/2 * * * *"} }

func remind(name string, t schedule.Timing, s content.SessionID, text string) schedule.Schedule {
	return schedule.Schedule{
		Name: name, Timing: t, By: "test", Created: time.Now().UTC(), Session: s,
		Commands: []commands.Command{commands.SubmitInput{Items: []content.Item{content.UserText(text)}, OnBusy: events.Queue}},
	}
}

func (w *world) add(s schedule.Schedule) {
	w.T.Helper()
	if err := schedules.Of(w.Cell).Add(w.Ctx, s, false); err != nil {
		w.T.Fatal(err)
	}
}

// sessions lists all sessions and checks that each had one turn.
func (w *world) sessions() []content.SessionID {
	w.T.Helper()
	all, err := w.Client.Sessions(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	slices.Sort(all)
	for _, id := range all {
		if got := len(turnlogtest.Facts[events.InputQueued](w.Deployment, id)); got != 1 {
			w.T.Errorf("session %s got %d inputs, want one", id, got)
		}
	}
	return all
}

// outcome returns the recorded outcome of a schedule's last firing.
func (w *world) outcome(name string) schedule.Outcome {
	w.T.Helper()
	o, _, err := schedules.Of(w.Cell).Outcome(w.Ctx, name)
	if err != nil {
		w.T.Fatal(err)
	}
	return o
}

func (w *world) pending() []string {
	w.T.Helper()
	names, err := schedules.Of(w.Cell).Fired(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	return names
}

func TestEachFiringStartsOneSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t) // it is midnight
		a := w.node("n1")
		b := w.node("n2")
		w.add(plan("often", often(), oneReply))
		<-time.After(7 * time.Minute)
		want := []content.SessionID{"often-20000101T000200Z", "often-20000101T000400Z", "often-20000101T000600Z"}
		if diff := cmp.Diff(want, w.sessions()); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
		for _, id := range want {
			queued := turnlogtest.Facts[events.RunStarted](w.Deployment, id)
			if len(queued) != 1 {
				t.Errorf("%s was opened %d times", id, len(queued))
			}
		}
		if o := w.outcome("often"); o.Result != schedule.Started || !o.Done || o.Session != want[2] {
			t.Errorf("outcome = %+v", o)
		}
		if got := w.pending(); len(got) > 0 {
			t.Errorf("unhandled firings: %v", got)
		}
		if err := schedules.Of(w.Cell).Remove(w.Ctx, "often"); err != nil {
			t.Fatal(err)
		}
		<-time.After(6 * time.Minute)
		if got := w.sessions(); len(got) != len(want) {
			t.Errorf("a removed schedule still fires: %v", got)
		}
		a.Drain(t)
		b.Drain(t)
	})
}

func TestAFiringTakesEffectWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", func(c *actor.Config) { c.Sweep = time.Hour })
		at := time.Now().Add(time.Minute)
		w.add(plan("p", schedule.Timing{At: at}, oneReply))
		w.Until("p-20000101T000100Z", events.KindInputQueued)
		if late := time.Since(at); late < -time.Second || late > 1500*time.Millisecond {
			t.Errorf("the session began %v after its time", late)
		}
		n.Drain(t)
	})
}

func TestMissedFiringsStartOneSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		late := plan("late", often(), oneReply)
		late.Late = 10 * time.Second
		w.add(late)
		w.add(plan("patient", often(), oneReply))
		<-time.After(9 * time.Minute) // with no node
		n := w.node("n1")
		<-time.After(50 * time.Second)
		want := []content.SessionID{"patient-20000101T000800Z"}
		if diff := cmp.Diff(want, w.sessions()); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
		if o := w.outcome("late"); o.Result != schedule.Skipped || !strings.Contains(o.Detail, "late") {
			t.Errorf("outcome = %+v, want one that is skipped", o)
		}
		n.Drain(t)
	})
}

const slowReply = "replies:\n  - text: ok\n    delay: 3m\n    repeat: true\n"

func TestABusySessionDelaysTheNextFiring(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		both := plan("both", often(), slowReply)
		both.Overlap = schedule.Allow
		w.add(both)
		w.add(plan("one", often(), slowReply))
		<-time.After(5 * time.Minute)
		if o := w.outcome("one"); o.Result != schedule.Skipped || o.Session != "one-20000101T000200Z" {
			t.Errorf("outcome = %+v, want one that is skipped", o)
		}
		<-time.After(2 * time.Minute)
		want := []content.SessionID{
			"both-20000101T000200Z", "both-20000101T000400Z", "both-20000101T000600Z", "one-20000101T000200Z", "one-20000101T000600Z",
		}
		if diff := cmp.Diff(want, w.sessions()); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
		n.Drain(t)
	})
}

// The session's agent is unknown, so it is refused.
func TestASessionThatCannotStartDelaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		p := plan("p", often(), oneReply)
		p.Commands = []commands.Command{commands.OpenSession{Config: events.Config{Agent: &events.AgentRef{Name: "absent"}}}}
		w.add(p)
		<-time.After(5 * time.Minute)
		const why = `session p-20000101T000400Z refused it: the node has no agents`
		if o := w.outcome("p"); o.Result != schedule.Failed || o.Session != "p-20000101T000400Z" || o.Detail != why {
			t.Errorf("outcome = %+v, want the second one failed, since %s", o, why)
		}
		p = plan("once", schedule.Timing{At: time.Now().Add(time.Minute)}, "")
		p.Commands = []commands.Command{commands.OpenSession{Config: events.Config{Agent: &events.AgentRef{Name: "absent"}}}}
		w.add(p)
		<-time.After(2 * time.Minute)
		if o := w.outcome("once"); o.Result != schedule.Failed {
			t.Errorf("outcome of a one-time schedule = %+v, want a failure", o)
		}
		n.Drain(t)
	})
}

func TestScheduledInputWakesAParkedSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.Start("s", oneReply)
		w.submit(s, "one")
		w.finish(s)
		w.add(remind("r", schedule.Timing{At: time.Now().Add(6 * time.Minute)}, "s", "wake up"))
		w.Until("s", events.KindParked)
		n.Crash(t)
		<-time.After(9 * time.Minute)
		n = w.node("n2")
		<-time.After(time.Minute)
		if got := len(turnlogtest.Facts[events.TurnFinished](w.Deployment, "s")); got != 2 {
			t.Errorf("%d turns ended, want two", got)
		}
		var causes []string
		for _, rec := range w.Records("s") {
			if slices.Contains(rec.Entry.Kinds(), events.KindInputQueued) {
				causes = append(causes, rec.Entry.Cause)
			}
		}
		if len(causes) != 2 || !strings.HasPrefix(causes[1], "schedule/r/") {
			t.Errorf("inputs were caused by %v, want the second by the schedule", causes)
		}
		if all, err := schedules.Of(w.Cell).List(w.Ctx); err != nil || len(all) != 1 || !all[0].Over || all[0].Last.Result != schedule.Started {
			t.Errorf("List = %+v, %v; want the one-time schedule over", all, err)
		}
		n.Drain(t)
		<-time.After(65 * time.Minute)
		n = w.node("n3")
		<-time.After(5 * time.Minute)
		if all, err := schedules.Of(w.Cell).List(w.Ctx); err != nil || len(all) > 0 {
			t.Errorf("after more than an hour List = %+v, %v", all, err)
		}
		n.Drain(t)
	})
}

func TestScheduledInputFailsForASessionThatCannotTakeIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.Start("closed", oneReply)
		if err := s.Ask(w.Ctx, commands.Close{}); err != nil {
			t.Fatal(err)
		}
		every := schedule.Timing{Every: 2 * time.Minute}
		w.add(remind("a", every, "closed", "hello"))
		w.add(remind("b", every, "absent", "hello"))
		<-time.After(3 * time.Minute)
		for name, want := range map[string]string{"a": "session closed is closed", "b": "there is no session absent"} {
			if o := w.outcome(name); o.Result != schedule.Failed || o.Detail != want {
				t.Errorf("outcome of %s = %+v, want %q", name, o, want)
			}
		}
		w.add(remind("once", schedule.Timing{At: time.Now().Add(time.Minute)}, "absent", "hello"))
		<-time.After(3 * time.Minute)
		if o := w.outcome("once"); o.Result != schedule.Failed || o.Detail != "there is no session absent" {
			t.Errorf("outcome of the one-time schedule = %+v, want it kept", o)
		}
		n.Drain(t)
	})
}

// Nodes crash at many instants around the firing.
func TestAFiringSurvivesItsNode(t *testing.T) {
	t.Parallel()
	for _, cut := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond, 250 * time.Millisecond, time.Second} {
		t.Run(cut.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				first := w.node("n1")
				w.add(plan("p", often(), oneReply))
				<-time.After(time.Until(time.Date(2000, 1, 1, 0, 2, 0, 0, time.UTC)) + cut)
				first.Crash(t)
				second := w.node("n2")
				<-time.After(time.Minute)
				if diff := cmp.Diff([]content.SessionID{"p-20000101T000200Z"}, w.sessions()); diff != "" {
					t.Errorf("sessions (-want +got):\n%s", diff)
				}
				if o := w.outcome("p"); !o.Done {
					t.Errorf("outcome = %+v, want one that is done", o)
				}
				second.Drain(t)
			})
		})
	}
}

// A node recorded the outcome of a firing and died before it sent the commands. The next firing has
// arrived since.
func TestANodeFinishesADeadNodesFiring(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := plan("p", often(), oneReply)
		p.Overlap = schedule.Allow
		w.add(p)
		<-time.After(4*time.Minute + 30*time.Second)
		began := schedule.Outcome{
			Created: p.Created, Due: time.Date(2000, 1, 1, 0, 2, 0, 0, time.UTC), Fired: 1, Result: schedule.Started, Session: "p-20000101T000200Z",
		}
		if _, err := schedules.Of(w.Cell).Record(w.Ctx, "p", began, 0); err != nil {
			t.Fatal(err)
		}
		n := w.node("n1")
		<-time.After(time.Minute)
		if diff := cmp.Diff([]content.SessionID{"p-20000101T000200Z", "p-20000101T000400Z"}, w.sessions()); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
		n.Drain(t)
	})
}

// Only the server writes firings, but a later release may change their format.
func TestAnUnreadableFiringIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		ctx, done := context.WithTimeout(w.Ctx, time.Second)
		defer done()
		if _, err := w.Conn.RequestWithContext(ctx, "turnlog.fired.p", []byte("?")); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if got := w.pending(); len(got) > 0 {
			t.Errorf("firings: %v", got)
		}
		if got := w.sessions(); len(got) > 0 {
			t.Errorf("sessions: %v", got)
		}
		n.Drain(t)
	})
}

// The server keeps a schedule but never fires it, as it does with times that passed while it was
// down after a kill -9.
func TestAFiringThatTheServerLostStillRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for name, timing := range map[string]schedule.Timing{"cron": often(), "every": {Every: 2 * time.Minute}} {
			data, err := plan(name, timing, oneReply).Encode()
			if err != nil {
				t.Fatal(err)
			}
			msg := &nats.Msg{Subject: "turnlog.schedule." + name, Data: data, Header: nats.Header{
				"Nats-Schedule": {"@at 2030-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"turnlog.fired." + name},
			}}
			if _, err := w.Conn.RequestMsgWithContext(w.Ctx, msg); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(5 * time.Minute)
		a, b := w.node("n1"), w.node("n2")
		<-time.After(150 * time.Second) // 30 s until it counts as lost, and six sweeps
		want := []content.SessionID{"cron-20000101T000400Z", "cron-20000101T000600Z", "every-20000101T000400Z"}
		if diff := cmp.Diff(want, w.sessions()); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
		a.Drain(t)
		b.Drain(t)
	})
}
