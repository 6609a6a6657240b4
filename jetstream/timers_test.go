package jetstream

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
)

func TestTimerFiresOnceIntoLaneDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		start := time.Now()
		env := fired("s1", "retry-1")
		must(t, c.Timers().Arm(t.Context(), "s1", "retry-1", start.Add(90*time.Second), env))
		<-time.After(89 * time.Second)
		wantIDs(t, read(t, c, "s1"))
		<-time.After(3 * time.Second)
		got := read(t, c, "s1")
		wantIDs(t, got, "due retry-1")
		if diff := cmp.Diff(env, got[0].Envelope); diff != "" {
			t.Errorf("command of the timer (-want +got):\n%s", diff)
		}
		<-time.After(time.Hour)
		wantIDs(t, read(t, c, "s1", events.Cursor{Lane: events.LaneDue, Seq: got[0].Seq}))
	})
}

func TestArmingAgainReplacesATimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		start := time.Now()
		for i, at := range []time.Duration{10 * time.Second, time.Hour} {
			env := fired("s1", []string{"first", "second"}[i])
			must(t, c.Timers().Arm(t.Context(), "s1", "retry", start.Add(at), env))
		}
		<-time.After(time.Minute)
		wantIDs(t, read(t, c, "s1"))
		<-time.After(time.Hour)
		wantIDs(t, read(t, c, "s1"), "due second")
	})
}

func TestDisarmedTimersDoNotFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		arm := func(s content.SessionID, id string) {
			t.Helper()
			must(t, c.Timers().Arm(t.Context(), s, id, time.Now().Add(time.Minute), fired(s, id)))
		}
		for _, id := range []string{"a", "b", "c"} {
			arm("s1", id)
			arm("s2", id)
			arm("s3", id)
		}
		must(t, c.Timers().DisarmAll(t.Context(), "s2"))
		must(t, c.Timers().DisarmAll(t.Context(), "never armed"))
		<-time.After(2 * time.Minute)
		for s, want := range map[content.SessionID]string{"s1": "due a, due b, due c", "s2": "", "s3": "due a, due b, due c"} {
			got := ids(read(t, c, s))
			slices.Sort(got)
			if joined := strings.Join(got, ", "); joined != want {
				t.Errorf("timers of %s that fired: %s, want %s", s, joined, want)
			}
		}
	})
}

func TestTimersSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, embedded.WithStore(dir))
		c := openCell(t, connect(t, s))
		create(t, c, jetstream.FileStorage, 1)
		must(t, c.Timers().Arm(t.Context(), "s1", "soon", time.Now().Add(time.Minute), fired("s1", "soon")))
		must(t, c.Timers().Arm(t.Context(), "s1", "later", time.Now().Add(time.Hour), fired("s1", "later")))
		s.Close()
		<-time.After(10 * time.Minute)
		c = openCell(t, connect(t, startServer(t, embedded.WithStore(dir))))
		<-time.After(2 * time.Second)
		wantIDs(t, read(t, c, "s1"), "due soon") // it was due while the server was down
		<-time.After(time.Hour)
		wantIDs(t, read(t, c, "s1"), "due soon", "due later")
	})
}

func TestArmRejectsCommandsThatCannotFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		timers := newCell(t).Timers()
		at := time.Now().Add(time.Minute)
		for _, bad := range []struct{ session, id string }{{"s1", "a.b"}, {"s1", ""}, {"s1", "*"}, {"*", "a"}, {"a.b", "a"}} {
			err := timers.Arm(t.Context(), content.SessionID(bad.session), bad.id, at, fired("s1", "x"))
			if !errors.Is(err, content.ErrBadID) {
				t.Errorf("Arm of %q of %q = %v, want ErrBadID", bad.id, bad.session, err)
			}
		}
		if err := timers.Arm(t.Context(), "s1", "a", at, submit("s1", "x", "")); !errors.Is(err, ErrNoLane) {
			t.Errorf("Arm with %s = %v, want ErrNoLane", commands.NameOf(commands.SubmitInput{}), err)
		}
	})
}
