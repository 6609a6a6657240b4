package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
)

// session does what a host does, without the world: decide, write down, fold. It
// keeps three states of the same journal, folded live, from the written bytes, and
// from a snapshot of the entry before, and holds them against each other.
type session struct {
	live    *loop.State
	replay  *loop.State
	resumed *loop.State
	journal [][]byte
	head    journal.Head
	checker *audit.Checker

	terse  bool // compare less after each entry; the end is compared whole
	at     content.Time
	sent   int
	offers *events.Catalog
	places map[content.CallID]content.Place
}

func newSession() *session {
	return &session{
		live: loop.New("s"), replay: loop.New("s"), resumed: loop.New("s"),
		checker: audit.NewChecker(), at: epoch, places: map[content.CallID]content.Place{},
	}
}

func (s *session) envelope(c commands.Command) commands.Envelope {
	s.sent++
	return commands.Envelope{
		ID: fmt.Sprintf("c%d", s.sent), Session: "s", By: "ann", At: s.at, Command: c, Catalog: s.offers,
	}
}

// decide asks the core and checks that it only looked.
func (s *session) decide(t testing.TB, env commands.Envelope) ([]events.Event, error) {
	t.Helper()
	if s.terse && s.live.Handled(env.ID) {
		return loop.Decide(s.live, env)
	}
	before, asked := encoded(t, s.live), render(env.Command)
	evs, err := loop.Decide(s.live, env)
	if encoded(t, s.live) != before {
		t.Fatalf("Decide(%s) changed the state that it was given", render(env.Command))
	}
	if render(env.Command) != asked {
		t.Fatalf("Decide changed its command from\n%s to\n%s", asked, render(env.Command))
	}
	if err != nil && len(evs) > 0 {
		t.Fatalf("Decide(%s) = %d events and %v", asked, len(evs), err)
	}
	return evs, err
}

// do decides a command, writes and folds its entry, and checks what holds after
// every entry.
func (s *session) do(t testing.TB, env commands.Envelope) ([]events.Event, error) {
	t.Helper()
	evs, err := s.decide(t, env)
	if err != nil || len(evs) == 0 {
		return nil, err
	}
	s.write(t, events.Entry{
		Version: events.Version, Session: "s", Seq: s.head.Seq + 1, Prev: s.head.Hash,
		Cause: env.ID, At: max(env.At, s.live.At), Epoch: epochOf(evs, s.live.Epoch), Events: evs,
	})
	for _, ev := range evs {
		if r, ok := ev.(events.ToolCallRequested); ok {
			s.places[r.Call.ID] = r.Call.Place
		}
	}
	s.compare(t, env)
	return evs, nil
}

func epochOf(evs []events.Event, now uint64) uint64 {
	if c, ok := evs[0].(events.DriverClaimed); ok {
		return c.Epoch
	}
	return now
}

func (s *session) write(t testing.TB, e events.Entry) {
	t.Helper()
	payload, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := events.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	if !s.terse || e.Seq%4 == 0 {
		s.resumed = resume(t, s.resumed)
	}
	s.live.Fold(e)
	s.replay.Fold(read)
	s.resumed.Fold(read)
	s.journal = append(s.journal, payload)
	s.head = journal.Head{Seq: e.Seq, Hash: events.HashOf(payload)}
	s.checker.Add(journal.Record{Head: s.head, Entry: read, Payload: payload})
}

// resume writes a state down and reads it back.
func resume(t testing.TB, s *loop.State) *loop.State {
	t.Helper()
	back, err := snapshot.Decode([]byte(encoded(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// compare checks that whoever read the journal knows the same, that a repeated
// command does nothing, and that the session is not stuck.
func (s *session) compare(t testing.TB, env commands.Envelope) {
	t.Helper()
	for name, other := range map[string]*loop.State{"replayed": s.replay, "resumed": s.resumed} {
		if a, b := s.owed(s.live), s.owed(other); a != b {
			t.Fatalf("after %s the %s state owes\n%s, want\n%s", render(env.Command), name, b, a)
		}
	}
	if evs, err := s.decide(t, env); err != nil || len(evs) > 0 {
		t.Fatalf("Decide again = %d events, %v for the handled command %s", len(evs), err, render(env.Command))
	}
	if !commands.IsAsk(env.Command) {
		again := env
		again.ID += "-again"
		if evs, _ := loop.Decide(s.live, again); len(evs) > 0 {
			t.Fatalf("the report %s counts twice: %s", render(env.Command), renderEvent(evs[0]))
		}
	}
	if wait := loop.Waiting(s.live); wait == commands.WaitWorking && len(loop.Pending(s.live)) == 0 {
		t.Fatalf("after %s the session works, but owes nothing", render(env.Command))
	}
}

func (s *session) owed(state *loop.State) string {
	out := []string{string(loop.Waiting(state))}
	for _, e := range loop.Pending(state) {
		if s.terse {
			out = append(out, e.Identity())
		} else {
			out = append(out, render(e))
		}
	}
	return strings.Join(out, " ")
}

// finish compares the states whole, folds the journal once more from its first
// byte, and lets the auditor judge it.
func (s *session) finish(t testing.TB) {
	t.Helper()
	fresh := loop.New("s")
	for _, payload := range s.journal {
		e, err := events.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		fresh.Fold(e)
	}
	want := render(s.live)
	for name, other := range map[string]*loop.State{"replayed": s.replay, "resumed": s.resumed, "fresh": fresh} {
		if got := render(other); got != want {
			t.Errorf("the %s state is\n%s, want\n%s", name, got, want)
		}
	}
	for _, v := range s.checker.Report().Violations {
		t.Errorf("entry %d breaks %s: %s", v.Seq, v.Invariant, v.Message)
	}
}

func encoded(t testing.TB, s *loop.State) string {
	t.Helper()
	b, err := snapshot.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
