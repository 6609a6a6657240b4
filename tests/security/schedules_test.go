package security

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/celltest"
	"github.com/turnlog/turnlog/schedule"
	"github.com/turnlog/turnlog/session"
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
	bubble(t, func(c *cell) {
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
		if n := len(celltest.Facts[events.ApprovalResolved](w, "s")); n != 0 {
			t.Errorf("a schedule decided %d approvals", n)
		}
		crew.Drain(t)
		node.Drain(t)
	})
}
