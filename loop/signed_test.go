package loop_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// signedSession is a session that takes signed input.
type signedSession struct {
	*loop.State
	t *testing.T
}

// take handles input, and reports whether it had an effect.
func (s *signedSession) take(id string, signed, now content.Time, schedule []byte) bool {
	s.t.Helper()
	env := commands.Envelope{ID: id, Session: s.Session, At: now, Command: commands.SubmitInput{Items: []content.Item{content.UserText(id)}}}
	env.Signed = &events.CommandSigned{Command: "submit_input", At: signed, Schedule: schedule}
	evs, err := loop.Decide(s.State, env)
	if err != nil {
		s.t.Fatal(err)
	}
	s.fold(id, now, evs)
	return len(evs) > 0
}

func (s *signedSession) fold(id string, now content.Time, evs []events.Event) {
	if len(evs) > 0 {
		s.Fold(events.Entry{Session: s.Session, Seq: s.Seq + 1, Cause: id, At: now, Events: evs})
	}
}

func newSignedSession(t *testing.T) *signedSession {
	t.Helper()
	s := &signedSession{loop.New("s"), t}
	s.fold("claim", 1, []events.Event{events.DriverClaimed{Epoch: 1}})
	s.fold("open", 2, []events.Event{events.RunStarted{Stepped: true}})
	return s
}

// Anyone who saw a signed command can send it again, any number of times.
func TestASignedCommandCountsOnceWhateverCameBetween(t *testing.T) {
	t.Parallel()
	s, second := newSignedSession(t), content.Time(1e9)
	if !s.take("pay", second, second, nil) {
		t.Fatal("it had no effect")
	}
	for i := range 3 * loop.CausesKept {
		s.fold(strconv.Itoa(i), second, []events.Event{events.Warning{Code: "x"}})
	}
	if s.take("pay", second, 2*second, nil) {
		t.Error("it counted twice")
	}
	late := second.Add(4 * commands.SignedWindow) // a host refuses it by now
	s.take("other", late, late, nil)
	if n := len(s.Signed.Latest); n != 1 {
		t.Errorf("%d commands are remembered, want 1", n)
	}
}

// What the state cannot remember, the host refuses.
func TestTheMemoryForSignedCommandsIsBounded(t *testing.T) {
	t.Parallel()
	s := newSignedSession(t)
	for i := range 600 {
		at := content.Time(1e9 + i)
		s.fold(strconv.Itoa(i), at, []events.Event{events.CommandSigned{At: at}})
	}
	if n := len(s.Signed.Latest); n != 512 || s.Signed.Latest[0].At != s.Signed.Before+1 {
		t.Errorf("%d are remembered, since %d, and before %d all are refused", n, s.Signed.Latest[0].At, s.Signed.Before)
	}
}

// A schedule is signed once, for all of its firings.
func TestAFiringCountsOnceHoweverLate(t *testing.T) {
	t.Parallel()
	s, def, day := newSignedSession(t), []byte{1}, content.Time(86400e9)
	take := func(due content.Time, n int, want bool) {
		t.Helper()
		id := fmt.Sprintf("schedule/nightly/1/%d/%d", due/1e9, n)
		if s.take(id, due, 10*day, def) != want {
			t.Errorf("%s: had an effect: %t", id, !want)
		}
		for i := range loop.CausesKept {
			s.fold(fmt.Sprint(id, i), 10*day, []events.Event{events.Warning{Code: "x"}})
		}
	}
	take(day, 1, true)
	take(day, 2, true)
	take(day, 1, false)
	take(2*day, 1, true)
	take(day, 2, false)
	take(2*day, 1, false)
	if n := len(s.Signed.Fired); n != 1 {
		t.Errorf("%d firings are remembered, want 1", n)
	}
}
