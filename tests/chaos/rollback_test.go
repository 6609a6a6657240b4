package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/internal/testing/torture"
	"github.com/turnlog/turnlog/jetstream"
)

// TestEveryStreamMayGoBack rolls one stream back repeatedly, to a backup or to nothing, while users send
// input and nodes are killed. Afterwards, every session must still receive commands, no undecided command
// may be purged, and no call may run twice.
func TestEveryStreamMayGoBack(t *testing.T) {
	for _, stream := range []string{"INBOX", "NAMED", "TIMERS", "RUN", "TASKS", "SCHEDULES", "NAMED_SCHEDULES"} {
		t.Run(stream, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				srv, err := embedded.Start(t.Context(), embedded.WithStore(dir))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					synctest.Wait()
					srv.Close()
				})
				c := torture.Config{
					Seed: *seed, Duration: 9 * time.Second, Gap: 750 * time.Millisecond, Sessions: max(1, *sessions/6), Nodes: 2, Workers: 2, Server: srv,
					Kinds: []torture.Kind{torture.StreamRolledBack, torture.NodeKilled}, Streams: []string{stream},
				}
				reminded, waited := &reminders{t: t}, &waiters{t: t}
				switch stream {
				case "SCHEDULES", "NAMED_SCHEDULES":
					reminded.named = stream == "NAMED_SCHEDULES"
					c.Clients = append(c.Clients, reminded.keep)
				case "TIMERS":
					c.Clients = append(c.Clients, waited.ask)
				}
				r := survives(t.Context(), t, c)
				if r.Faults[torture.StreamRolledBack] < 5 || r.Faults[torture.NodeKilled] < 5 {
					t.Errorf("faults = %v, so this run proves little", r.Faults)
				}
				if commands := stream == "INBOX" || stream == "NAMED"; commands != (r.Repeated > 0) {
					t.Errorf("%d commands were sent again", r.Repeated)
				}
				switch stream {
				case "SCHEDULES", "NAMED_SCHEDULES":
					reminded.check(srv)
				case "TIMERS":
					waited.check()
				}
			})
		})
	}
}

// waiters is a client whose sessions are parked until a timer fires, since no one answers their questions.
type waiters struct {
	t       *testing.T
	expired int
}

// answerTime is how long a question waits: longer than a session without work needs to park.
const answerTime = 4 * time.Second

// ask starts a session every now and then until ctx ends, and waits until all questions have expired.
func (w *waiters) ask(ctx context.Context, p *cell.Process) {
	c, err := client.Open(p.Conn, "")
	if err != nil {
		w.t.Error(err)
		return
	}
	var all []content.SessionID
	for n := 0; ctx.Err() == nil; n++ {
		id := content.SessionID(fmt.Sprint("waits-", n))
		s, err := c.Start(w.t.Context(), client.Options{ID: id, Config: events.Config{
			Model: "scripted:test", ModelData: []byte(asking), ApprovalTTL: answerTime, Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}},
		}})
		if err == nil {
			err = s.Send(w.t.Context(), "", content.UserText("go"))
			_ = s.Close(w.t.Context())
		}
		if err != nil {
			w.t.Error(err)
			return
		}
		all = append(all, id)
		<-time.After(700 * time.Millisecond)
	}
	for _, id := range all {
		eventually(w.t, "the question of "+string(id)+" expires", func(ctx context.Context) bool {
			state, _, err := c.Read(ctx, id)
			return err == nil && state.Turn == nil && len(state.PendingApprovals()) == 0
		})
		w.expired++
	}
}

// check fails if the run tried nothing.
func (w *waiters) check() {
	w.t.Logf("%d questions expired", w.expired)
	if w.expired < 9 {
		w.t.Errorf("%d questions expired, so this run proves little", w.expired)
	}
}

// reminders is a client that has a schedule send input to its session.
type reminders struct {
	t     *testing.T
	named bool // the schedule is of a user with a name
	lost  int  // how often it had to add the schedule again
	after int  // inputs when the faults were over
}

const remindedSession content.SessionID = "reminded"

// keep adds the schedule, again whenever it was lost, until ctx ends. Then it waits until the schedule
// fires again, and removes it.
func (r *reminders) keep(ctx context.Context, p *cell.Process) {
	opts := p.Conn.Opts
	if r.named {
		opts.InboxPrefix = "_USER_ada"
	}
	nc, err := opts.Connect()
	if err != nil {
		r.t.Error(err)
		return
	}
	defer nc.Close()
	c, err := client.Open(nc, "")
	if err != nil {
		r.t.Error(err)
		return
	}
	s, err := c.Start(r.t.Context(), client.Options{ID: remindedSession, Config: events.Config{
		Model: "scripted:test", ModelData: []byte("replies: [{text: well}]\nrepeat: true\n"),
	}})
	if err != nil {
		r.t.Error(err)
		return
	}
	defer func() { _ = s.Close(r.t.Context()) }()
	r.lost = -1 // the first add does not count as a loss
	every := schedule.Schedule{
		Name: "remind", Timing: schedule.Timing{Every: time.Second}, By: "test", Created: time.Now().UTC(), Session: remindedSession,
		Commands: []commands.Command{commands.SubmitInput{Items: []content.Item{content.UserText("it is time")}, OnBusy: events.Queue}},
	}
	renew := func() {
		if all, err := c.Schedules(r.t.Context()); err == nil && len(all) == 0 && c.Schedule(r.t.Context(), every, false) == nil {
			r.lost++
		}
	}
	for ctx.Err() == nil {
		renew()
		<-time.After(500 * time.Millisecond)
	}
	<-time.After(5 * time.Second) // the last rollback is over
	r.after = len(r.inputs(p.Cell))
	eventually(r.t, "the schedule fires again", func(context.Context) bool {
		renew()
		return len(r.inputs(p.Cell)) > r.after+3
	})
	eventually(r.t, "the schedule is removed", func(ctx context.Context) bool { return c.Unschedule(ctx, "remind") == nil })
	eventually(r.t, "the session is at rest", func(ctx context.Context) bool {
		state, _, err := c.Read(ctx, remindedSession)
		return err == nil && state.Turn == nil && len(state.Queue) == 0
	})
}

// inputs returns the causes of the inputs that the schedule sent.
func (r *reminders) inputs(c *jetstream.Cell) (causes []string) {
	for rec, err := range c.Journal().Read(r.t.Context(), remindedSession, 0) {
		if err == nil && slices.Contains(rec.Entry.Kinds(), events.KindInputQueued) {
			causes = append(causes, rec.Entry.Cause)
		}
	}
	return causes
}

// check audits the session. Each firing must have sent its input once.
func (r *reminders) check(srv *embedded.Server) {
	nc, err := srv.Connect()
	if err != nil {
		r.t.Fatal(err)
	}
	defer nc.Close()
	c, err := jetstream.Open(nc, "")
	if err != nil {
		r.t.Fatal(err)
	}
	report, err := audit.Verify(c.Journal().Read(r.t.Context(), remindedSession, 0))
	if err != nil || len(report.Faults) > 0 {
		r.t.Errorf("audit: %v, %v", report.Faults, err)
	}
	causes := r.inputs(c)
	r.t.Logf("the schedule was lost %d times and fired %d times", r.lost, len(causes))
	slices.Sort(causes)
	if twice := len(causes) - len(slices.Compact(slices.Clone(causes))); twice > 0 || len(causes) < 7 || r.lost == 0 {
		r.t.Errorf("%d firings, %d of them twice, the schedule was lost %d times: %s", len(causes), twice, r.lost, strings.Join(causes, " "))
	}
}
