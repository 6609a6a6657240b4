package schedules

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	turnlog "github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

func planned(name string, t schedule.Timing) schedule.Schedule {
	return schedule.Schedule{
		Name: name, Timing: t, By: "test", Created: time.Now().UTC().Truncate(time.Millisecond),
		Commands: []commands.Command{commands.OpenSession{
			Config: events.Config{Model: "demo"}, Input: []content.Item{content.UserText("go")},
		}},
	}
}

func TestMain(m *testing.M) { natstest.Main(m) }

func must(tb testing.TB, err error) {
	tb.Helper()
	natstest.Must(tb, err)
}

// open returns the default cell on a server, provisioned if it is not.
func open(tb testing.TB, s *embedded.Server, memory bool) *turnlog.Cell {
	tb.Helper()
	c, err := turnlog.Open(natstest.Connect(tb, s), "")
	must(tb, err)
	must(tb, admin.Of(c).Provision(tb.Context(), admin.Config{Memory: memory}))
	return c
}

// inBubble runs a test in virtual time with a provisioned cell on a server of its own.
func inBubble(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, Of(open(t, natstest.Start(t), true))) })
}

// firing waits for the next firing of a schedule and settles it.
func firing(t *testing.T, s *Store, name string, within time.Duration) Firing {
	t.Helper()
	for end := time.Now().Add(within); ; {
		f, there, err := s.Firing(t.Context(), name)
		must(t, err)
		if there {
			must(t, s.Settle(t.Context(), name, f.Seq))
			return f
		}
		if time.Now().After(end) {
			t.Fatalf("%s did not fire within %v", name, within)
		}
		<-time.After(time.Second)
	}
}

// TestCrontabTimesMatchTheServers compares the server's firings with our evaluation of the
// expression.
func TestCrontabTimesMatchTheServers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cron, zone string
		firings    int // few if they are days apart
	}{
		{"*/5 * * * *", "", 5},
		{"@hourly", "Europe/Berlin", 3},
		{"@daily", "America/New_York", 2},
		{"30 4 * * mon-fri", "Asia/Kolkata", 1},
		{"0 12 4 * mon", "", 2}, // the 4th, and every Monday
		{"15,45 8-18/5 * 1 *", "Australia/Lord_Howe", 4},
		{"59 23 31 * 7", "Pacific/Apia", 1},
	} {
		t.Run(tt.cron, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				timing := schedule.Timing{Cron: tt.cron, Zone: tt.zone}
				first := timing.Next(time.Time{}, time.Now())
				<-time.After(time.Until(first) - 25*time.Hour) // the server, which is never idle, runs for the last day without a firing
				s := Of(open(t, natstest.Start(t), true))
				p := planned("p", timing)
				must(t, s.Add(t.Context(), p, false))
				for range tt.firings {
					want := timing.Next(time.Time{}, time.Now())
					<-time.After(time.Until(want) - 2*time.Second)
					if _, early, err := s.Firing(t.Context(), "p"); early || err != nil {
						t.Fatalf("fired 2 s before %v: %v", want, err)
					}
					f := firing(t, s, "p", 4*time.Second)
					if got := timing.Due(f.At); !got.Equal(want) || f.Err != nil {
						t.Errorf("fired at %v, which was due at %v, want %v (%v)", f.At, got, want, f.Err)
					}
					if diff := cmp.Diff(p, f.Schedule); diff != "" {
						t.Errorf("schedule (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

func TestMissedFiringsBecomeOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, embedded.WithStore(dir))
		s := Of(open(t, srv, false))
		hourly, every := schedule.Timing{Cron: "@hourly"}, schedule.Timing{Every: 10 * time.Minute}
		once := schedule.Timing{At: time.Now().Add(90 * time.Minute)}
		must(t, s.Add(t.Context(), planned("hourly", hourly), false))
		must(t, s.Add(t.Context(), planned("every", every), false))
		must(t, s.Add(t.Context(), planned("once", once), false))

		<-time.After(5*time.Hour + 30*time.Minute + 5*time.Second) // they are not handled
		last := time.Now().Truncate(time.Hour)
		for name, want := range map[string]time.Time{"hourly": last, "every": last.Add(30 * time.Minute), "once": once.At} {
			f := firing(t, s, name, 0)
			if got := f.Schedule.Timing.Due(f.At); got.Sub(want).Abs() > time.Second {
				t.Errorf("%s: due at %v, want %v", name, got, want)
			}
			if _, more, err := s.Firing(t.Context(), name); more || err != nil {
				t.Errorf("%s: there is another firing (%v)", name, err)
			}
		}
		srv.Close()
		<-time.After(3*time.Hour + 15*time.Minute) // there is no server
		s = Of(open(t, natstest.Start(t, embedded.WithStore(dir)), false))
		f := firing(t, s, "hourly", 3*time.Second)
		if got, want := hourly.Due(f.At), time.Now().Truncate(time.Hour); !got.Equal(want) {
			t.Errorf("after a restart: due at %v, want %v", got, want)
		}
		firing(t, s, "every", 3*time.Second)
		<-time.After(9 * time.Minute)
		if names, err := s.Fired(t.Context()); err != nil || len(names) > 0 {
			t.Errorf("fired without being due: %v (%v)", names, err)
		}
		firing(t, s, "every", 2*time.Minute)
	})
}

func TestScheduleNameIsUniqueUntilRemoved(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		p := planned("p", schedule.Timing{Every: time.Minute})
		must(t, s.Add(ctx, p, false))
		must(t, s.Add(ctx, p, false)) // again
		other := planned("p", schedule.Timing{Every: time.Hour})
		if err := s.Add(ctx, other, false); !errors.Is(err, ErrExists) {
			t.Errorf("Add of another one = %v, want ErrExists", err)
		}
		must(t, s.Add(ctx, other, true))
		<-time.After(30 * time.Minute)
		if names, err := s.Fired(ctx); err != nil || len(names) > 0 {
			t.Errorf("the schedule that was replaced fired: %v (%v)", names, err)
		}
		<-time.After(31 * time.Minute)
		all, err := s.List(ctx)
		if err != nil || len(all) != 1 || all[0].Timing.Every != time.Hour || all[0].Pending.IsZero() {
			t.Errorf("List = %+v, %v", all, err)
		}
		must(t, s.Remove(ctx, "p"))
		<-time.After(3 * time.Hour)
		if all, err = s.List(ctx); err != nil || len(all) > 0 {
			t.Errorf("List after Remove = %+v, %v", all, err)
		}
		for _, name := range []string{"p", "", "*", "a.b"} {
			if err := s.Remove(ctx, name); !errors.Is(err, ErrNotFound) {
				t.Errorf("Remove of %q = %v, want ErrNotFound", name, err)
			}
		}
	})
}

func TestPendingFiringReservesTheName(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store) {
		once := planned("p", schedule.Timing{At: time.Now().Add(time.Second)})
		must(t, s.Add(t.Context(), once, false))
		<-time.After(time.Minute)
		if err := s.Add(t.Context(), planned("p", schedule.Timing{Every: time.Minute}), false); !errors.Is(err, ErrExists) {
			t.Errorf("Add = %v, want ErrExists", err)
		}
		all, err := s.List(t.Context())
		if err != nil || len(all) != 1 || all[0].Pending.IsZero() {
			t.Errorf("List = %+v, %v; want the one that fired", all, err)
		}
		must(t, s.Remove(t.Context(), "p"))
	})
}

func TestOneNodeRecordsTheOutcomeOfAFiring(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store) {
		o := schedule.Outcome{
			Created: time.UnixMilli(1).UTC(), Due: time.Unix(7, 0).UTC(), Fired: 3,
			Result: schedule.Skipped, Detail: "why", Session: "s", Done: true,
		}
		at, err := s.Record(t.Context(), "p", o, 0)
		must(t, err)
		if _, err := s.Record(t.Context(), "p", o, 0); !errors.Is(err, ErrHandled) {
			t.Errorf("second Record = %v, want ErrHandled", err)
		}
		got, number, err := s.Outcome(t.Context(), "p")
		if diff := cmp.Diff(o, got); diff != "" || number != at || err != nil {
			t.Errorf("Outcome = %d, %v; want %d (-want +got):\n%s", number, err, at, diff)
		}
		must(t, s.Forget(t.Context(), "p", at-1))
		if _, number, err := s.Outcome(t.Context(), "p"); number != at || err != nil {
			t.Errorf("Outcome after Forget = %d, %v", number, err)
		}
		must(t, s.Forget(t.Context(), "p", at))
		if _, number, err := s.Outcome(t.Context(), "p"); number != 0 || err != nil {
			t.Errorf("Outcome that was forgotten = %d, %v", number, err)
		}
	})
}

func TestFiringOfAnotherScheduleIsRejected(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store) {
		p := planned("victim", schedule.Timing{Every: time.Hour})
		must(t, s.Add(t.Context(), p, false))
		forged, err := p.Encode()
		must(t, err)
		_, err = s.api.Publish(t.Context(), &nats.Msg{Subject: s.names.Schedule("mine"), Data: forged, Header: nats.Header{
			"Nats-Schedule": {"@every 1s"}, "Nats-Schedule-Target": {s.names.Fired("victim")},
		}})
		must(t, err)
		<-time.After(3 * time.Second)
		f, there, err := s.Firing(t.Context(), "victim")
		if !there || !errors.Is(f.Err, schedule.ErrBadSchedule) {
			t.Errorf("Firing = %+v, %v, %v; want ErrBadSchedule", f, there, err)
		}
	})
}

// Schedulers have no access to blobs, so a schedule cannot make nodes read one, however large.
func TestScheduleThatNamesABlobIsItsOwnBytes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store) {
		data, err := planned("p", schedule.Timing{Every: time.Hour}).Encode()
		must(t, err)
		_, err = s.api.Publish(t.Context(), &nats.Msg{Subject: s.names.Schedule("p"), Data: data, Header: nats.Header{
			"Nats-Schedule": {"@every 1h"}, "Nats-Schedule-Target": {s.names.Fired("p")},
			layout.HeaderBlob: {strings.Repeat("ab", 32)},
		}})
		must(t, err)
		all, err := s.List(t.Context())
		if err != nil || len(all) != 1 || all[0].Err != nil || all[0].Timing.Every != time.Hour {
			t.Errorf("List = %+v, %v", all, err)
		}
	})
}

func TestTimeThatTheServerRejectsIsABadSchedule(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store) {
		for _, pattern := range [][]string{{"0 61 * * * *", ""}, {"@daily", "Nowhere/Town"}} {
			msg := &nats.Msg{Subject: s.names.Schedule("p"), Header: nats.Header{
				"Nats-Schedule": {pattern[0]}, "Nats-Schedule-Target": {s.names.Fired("p")},
			}}
			if pattern[1] != "" {
				msg.Header.Set("Nats-Schedule-Time-Zone", pattern[1])
			}
			if _, err := s.api.Publish(t.Context(), msg); !api.IsBadSchedule(err) {
				t.Errorf("%v: %v", pattern, err)
			}
		}
		bad := planned("p", schedule.Timing{Cron: "61 * * * *"})
		if err := s.Add(t.Context(), bad, false); !errors.Is(err, schedule.ErrBadSchedule) || !strings.Contains(err.Error(), "(61)") {
			t.Errorf("Add = %v, want ErrBadSchedule that names the value", err)
		}
	})
}

func TestOneListenerReceivesEachAlarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		c := open(t, srv, true)
		heard := make(chan turnlog.Alarm, 10)
		for range 3 {
			alarms, err := open(t, srv, true).Alarms(t.Context())
			must(t, err)
			go func() {
				for a := range alarms {
					heard <- a
				}
			}()
		}
		synctest.Wait()
		must(t, Of(c).Add(t.Context(), planned("p", schedule.Timing{At: time.Now().Add(time.Minute)}), false))
		due := commands.Envelope{ID: "x", Session: "s", Command: commands.ReportTimer{Kind: commands.TimerRetry}}
		must(t, c.Timers().Arm(t.Context(), "s", "x", time.Now().Add(2*time.Minute), due))
		<-time.After(time.Hour)
		close(heard)
		var got []turnlog.Alarm
		for a := range heard {
			got = append(got, a)
		}
		if diff := cmp.Diff([]turnlog.Alarm{{Schedule: "p"}, {Session: "s"}}, got); diff != "" {
			t.Errorf("alarms (-want +got):\n%s", diff)
		}
	})
}

func TestFailedScheduleIsListedForAWeek(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, embedded.WithStore(dir))
		s := Of(open(t, srv, false))
		p := planned("p", schedule.Timing{At: time.Now().Add(10 * time.Second)})
		must(t, s.Add(t.Context(), p, false))
		f := firing(t, s, "p", 20*time.Second)
		o := schedule.Outcome{Created: p.Created, Due: p.Timing.Due(f.At), Fired: f.Seq, Result: schedule.Failed, Detail: "why", Done: true}
		_, err := s.Record(t.Context(), "p", o, 0)
		must(t, err)
		listed := func() []Standing {
			t.Helper()
			all, err := s.List(t.Context())
			must(t, err)
			for _, one := range all {
				must(t, s.Expire(t.Context(), one, time.Now()))
			}
			return all
		}
		all := listed()
		if len(all) != 1 || !all[0].Over || all[0].Name != "p" || !all[0].Timing.At.Equal(o.Due) || all[0].Last.Detail != "why" {
			t.Fatalf("List = %+v, want p, which is over", all)
		}
		s = Of(open(t, natstest.PassWithout(t, srv, 7*24*time.Hour-time.Hour, embedded.WithStore(dir)), false))
		if all = listed(); len(all) != 1 {
			t.Errorf("an hour before the week is over List = %+v", all)
		}
		again := planned("p", schedule.Timing{Every: time.Hour})
		must(t, s.Add(t.Context(), again, false)) // the name is free
		if all = listed(); len(all) != 1 || all[0].Over || all[0].Last.Result != "" {
			t.Errorf("under the same name List = %+v", all)
		}
		must(t, s.Remove(t.Context(), "p"))
		_, err = s.Record(t.Context(), "p", o, 0)
		must(t, err)
		<-time.After(2 * time.Hour)
		listed()
		if all = listed(); len(all) != 0 {
			t.Errorf("after a week List = %+v", all)
		}
		_, err = s.Record(t.Context(), "p", o, 0)
		must(t, err)
		must(t, s.Remove(t.Context(), "p"))
		if all = listed(); len(all) != 0 {
			t.Errorf("List after Remove = %+v", all)
		}
	})
}

// Nodes delete the firing of a schedule that a user with a name removed. Until then the name may be taken again.
func TestAFiringOfARemovedScheduleIsNotThatOfTheNext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store) {
		s.user = "ada" // as with a connection of that user
		must(t, s.Add(t.Context(), planned("p", schedule.Timing{Every: time.Minute}), false))
		<-time.After(90 * time.Second) // it fires, and no node handles that
		must(t, s.Remove(t.Context(), "p"))
		must(t, s.Add(t.Context(), planned("p", schedule.Timing{Every: time.Hour}), false))
		if f, there, err := s.Firing(t.Context(), "p.ada"); there && !errors.Is(f.Err, ErrNotFound) || err != nil {
			t.Errorf("Firing = %+v, %v, %v; want that it is of a removed schedule", f, there, err)
		}
	})
}
