package security

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/schedules"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// plan is a schedule of new sessions.
func plan(name string, every time.Duration) schedule.Schedule {
	return schedule.Schedule{
		Name: name, Timing: schedule.Timing{Every: every}, By: "scheduler", Created: time.Now(),
		Commands: []commands.Command{commands.OpenSession{
			Config: events.Config{Model: "scripted:test", ModelData: []byte("replies:\n  - text: done\n")},
			Input:  []content.Item{content.UserText("go")},
		}},
	}
}

func TestASchedulersRoleIsEnoughForSchedules(t *testing.T) {
	inEachLayout(t, func(_ *testing.T, c *cell) {
		s, w := c.person("scheduler"), c.person("client")
		node := c.world("driver").Node(actor.Config{Name: "n1"})
		if err := s.Client.Schedule(c.ctx, plan("often", time.Minute), false); err != nil {
			t.Fatal(err)
		}
		<-time.After(90 * time.Second)
		all, err := s.Client.Schedules(c.ctx)
		if err != nil || len(all) != 1 || all[0].Last.Result != schedule.Started {
			t.Fatalf("Schedules = %+v, %v", all, err)
		}
		w.Until(all[0].Last.Session, events.KindTurnFinished)
		if err := s.Client.Unschedule(c.ctx, "often"); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Minute)
		if ids, err := w.Client.Sessions(c.ctx); err != nil || len(ids) != 1 {
			t.Errorf("sessions: %v, %v; want one", ids, err)
		}
		node.Drain(t)
		c.clean()
	})
}

func TestOtherRolesCannotSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, false)
		if err := c.person("scheduler").Client.Schedule(c.ctx, plan("mine", time.Hour), false); err != nil {
			t.Fatal(err)
		}
		for _, name := range single() {
			if name == "scheduler" {
				continue
			}
			w := c.person(name)
			for what, err := range map[string]error{
				"add":     w.Client.Schedule(c.ctx, plan("theirs", time.Hour), false),
				"replace": w.Client.Schedule(c.ctx, plan("mine", time.Second), true),
			} {
				if !errors.Is(err, client.ErrForbidden) {
					t.Errorf("%s may %s a schedule: %v", name, what, err)
				}
			}
			for _, subject := range []string{"turnlog.fired.mine", "turnlog.schedule.mine"} {
				if c.publishes(name, w.Conn, subject) {
					t.Errorf("%s publishes on %s", name, subject)
				}
			}
		}
	})
}

func TestAUserSchedulesOnlyUnderItsName(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		for name, may := range map[string]map[string]bool{
			"ada":       {"ada": true},
			"bob":       {"bob": true},
			"scheduler": {"": true},
		} {
			nc := c.connect(name)
			for _, key := range []string{"", "ada", "bob", "eve"} {
				subject := strings.TrimSuffix("turnlog.schedule.p."+key, ".")
				if got := c.publishes(name, nc, subject); got != may[key] {
					t.Errorf("%s publishes on %s: %t, want %t", name, subject, got, may[key])
				}
			}
			for _, stream := range []string{"SCHEDULES", "NAMED_SCHEDULES"} { // a purge has no name
				if got, want := c.publishes(name, nc, "$JS.API.STREAM.PURGE.TURNLOG_"+stream), name == "scheduler"; got != want {
					t.Errorf("%s purges %s: %t, want %t", name, stream, got, want)
				}
			}
		}
	})
}

// TestAScheduleBearsTheNameOfItsUser has ada, who claims to be bob, start sessions, and replace and remove bob's
// schedule.
func TestAScheduleBearsTheNameOfItsUser(t *testing.T) {
	inEachLayout(t, func(_ *testing.T, c *cell) {
		ada, bob, admin := c.person("ada"), c.person("bob"), c.person("scheduler")
		node := c.world("driver").Node(actor.Config{Name: "n1"})
		hers, his, old := plan("hers", time.Minute), plan("his", time.Hour), plan("old", time.Minute)
		hers.By, his.By, old.By = "bob", "bob", "bob"
		for w, s := range map[*turnlogtest.Deployment]schedule.Schedule{ada: hers, bob: his, admin: old} {
			if err := w.Client.Schedule(c.ctx, s, false); err != nil {
				c.t.Fatal(err)
			}
		}
		for _, replace := range []bool{false, true} {
			if err := ada.Client.Schedule(c.ctx, plan("his", time.Minute), replace); !errors.Is(err, schedules.ErrExists) {
				c.t.Errorf("ada takes the name of bob's schedule: %v", err)
			}
		}
		if err := ada.Client.Unschedule(c.ctx, "his"); !errors.Is(err, schedules.ErrNotFound) {
			c.t.Errorf("ada removes bob's schedule: %v", err)
		}
		<-time.After(90 * time.Second)
		all, err := ada.Client.Schedules(c.ctx)
		if err != nil || len(all) != 3 {
			c.t.Fatalf("Schedules = %+v, %v", all, err)
		}
		var got []string
		for _, s := range all {
			got = append(got, s.Name+" by "+content.Sender(s.User, s.By))
			if s.Last.Session == "" {
				continue
			}
			ada.Until(s.Last.Session, events.KindTurnFinished)
			opened := turnlogtest.Facts[events.RunStarted](ada, s.Last.Session)[0]
			input := turnlogtest.Facts[events.InputQueued](ada, s.Last.Session)[0]
			got = append(got, "opened by "+content.Sender(opened.User, opened.By), "input by "+content.Sender(input.User, input.By))
		}
		want := []string{
			"hers by ada (claims to be bob)", "opened by ada", "input by ada", "his by bob", "old by bob (claimed)",
			"opened by schedule/old (claimed)", "input by schedule/old (claimed)",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			c.t.Errorf("who did what (-want +got):\n%s", diff)
		}
		for _, w := range []*turnlogtest.Deployment{ada, bob} {
			for _, s := range []string{"hers", "his"} {
				if err := w.Client.Unschedule(c.ctx, s); err != nil && !errors.Is(err, schedules.ErrNotFound) {
					c.t.Error(err)
				}
			}
		}
		if err := admin.Client.Unschedule(c.ctx, "old"); err != nil {
			c.t.Error(err)
		}
		before, err := ada.Client.Sessions(c.ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		<-time.After(10 * time.Minute)
		if after, err := ada.Client.Sessions(c.ctx); err != nil || len(after) != len(before) {
			c.t.Errorf("sessions: %v, %v; before the schedules were removed %v", after, err, before)
		}
		if left, err := schedules.Of(c.open("driver")).List(c.ctx); err != nil || len(left) > 0 {
			c.t.Errorf("left of removed schedules: %+v, %v", left, err)
		}
		node.Drain(c.t)
		c.clean()
	})
}

// TestNoScheduleBearsAnotherName has ada's schedules fire onto every subject of bob's schedules, with the same
// content.
func TestNoScheduleBearsAnotherName(t *testing.T) {
	inEachLayout(t, func(_ *testing.T, c *cell) {
		ada, bob := c.person("ada"), c.person("bob")
		his := plan("his", 24*time.Hour)
		his.By = "bob"
		if err := bob.Client.Schedule(c.ctx, his, false); err != nil {
			c.t.Fatal(err)
		}
		node := c.world("driver").Node(actor.Config{Name: "n1"})
		forged := plan("his", time.Second)
		forged.By, forged.Created = "bob", time.Now().Add(-time.Hour)
		data, err := forged.Encode()
		if err != nil {
			c.t.Fatal(err)
		}
		outcome, err := schedule.Outcome{Created: his.Created, Due: time.Now(), Fired: 1, Result: schedule.Started, Session: "his"}.Encode()
		if err != nil {
			c.t.Fatal(err)
		}
		for n, m := range []struct {
			target string
			data   []byte
		}{
			{"turnlog.fired.his.bob", data},
			{"turnlog.schedule.his.bob", data},
			{"turnlog.schedule.new.bob", data},
			{"turnlog.outcome.his.bob", outcome},
		} {
			msg := &nats.Msg{Subject: fmt.Sprintf("turnlog.schedule.x%d.ada", n), Data: m.data, Header: nats.Header{
				"Nats-Schedule": {"@at " + time.Now().Add(2*time.Second).UTC().Format(time.RFC3339)}, "Nats-Schedule-Target": {m.target}, "X": {"1\r\nNats-Scheduler: turnlog.schedule.his.bob"},
			}}
			if answer, err := ada.Conn.RequestMsgWithContext(c.ctx, msg); err != nil || bytes.Contains(answer.Data, []byte(`"error"`)) {
				c.t.Fatalf("schedule that sends to %s: %+v, %v", m.target, answer, err)
			}
		}
		<-time.After(5 * time.Minute)
		if o, _, err := schedules.Of(c.open("driver")).Outcome(c.ctx, "his.bob"); err == nil {
			c.t.Errorf("outcome of bob's schedule: %+v", o)
		}
		ids, err := ada.Client.Sessions(c.ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, id := range ids {
			for _, opened := range turnlogtest.Facts[events.RunStarted](ada, id) {
				c.t.Errorf("session %s was opened by %s", id, content.Sender(opened.User, opened.By))
			}
		}
		node.Drain(c.t)
	})
}

// TestAScheduleCannotApprove has the scheduler store schedules that package schedule would
// refuse, with targets that schedules must not write to.
func TestAScheduleCannotApprove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t, false)
		w, nc := c.person("client"), c.connect("scheduler")
		crew := c.world("worker").Worker("w1", worker.Config{DrainTimeout: time.Second}, echoes(t))
		node := c.world("driver").Node(actor.Config{})
		s := w.Start("s", "replies:\n  - calls: [{name: echo, input: {text: hi}}]\n  - text: done\n", func(o *client.Options) {
			o.Config.Rules = []events.Rule{{Tool: "echo", Action: events.RuleAsk}}
		})
		defer func() { _ = s.Close(t.Context()) }()
		submit(w, s)
		ask := next[*session.ApprovalRequest](w, s)

		smuggled := plan("p", time.Second)
		smuggled.Session = "s"
		smuggled.Commands = []commands.Command{commands.ResolveApproval{Approval: ask.ID, Approve: true}}
		data, err := smuggled.Encode()
		if err != nil {
			t.Fatal(err)
		}
		env := commands.Envelope{ID: "x", Session: "s", Command: smuggled.Commands[0]}
		decision, err := env.Encode()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []struct {
			target string
			data   []byte
			taken  bool
		}{
			{"turnlog.fired.p", data, true}, // and ignored by nodes
			{"turnlog.cmd.s.decide", decision, false},
			{"turnlog.due.s", decision, false},
			{"turnlog.journal.s", decision, false},
		} {
			msg := &nats.Msg{Subject: "turnlog.schedule.p", Data: m.data, Header: nats.Header{
				"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {m.target},
			}}
			answer, err := nc.RequestMsgWithContext(c.ctx, msg)
			if err != nil {
				t.Fatal(err)
			}
			if taken := !bytes.Contains(answer.Data, []byte(`"error"`)); taken != m.taken {
				t.Errorf("a schedule that sends to %s is taken: %t, want %t", m.target, taken, m.taken)
			}
			<-time.After(time.Minute)
		}
		if n := len(turnlogtest.Facts[events.ApprovalResolved](w, "s")); n != 0 {
			t.Errorf("a schedule decided %d approvals", n)
		}
		crew.Drain(t)
		node.Drain(t)
	})
}
