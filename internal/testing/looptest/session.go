package looptest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
)

// Session does what a host does, without effects: decide, append, fold. It keeps three states
// of the same journal, folded live, from the encoded bytes, and from a snapshot of the
// previous entry, and compares them.
type Session struct {
	Live   *loop.State
	At     content.Time          // time of the next envelope
	Sent   int                   // number of envelopes
	Offers *events.Catalog       // attached to every envelope, or nil
	Policy *events.Policy        // likewise
	Taken  *events.SnapshotTaken // attached to the next envelope, or nil
	Terse  bool                  // compare less after each entry, and everything at the end

	replay  *loop.State
	resumed *loop.State
	chunks  map[events.Hash][]byte
	live    snapshot.Encoder  // of Live
	again   *snapshot.Encoder // of resumed
	journal [][]byte
	head    journal.Head
	checker *audit.Checker
	places  map[content.CallID]content.Place
	sent    map[string][]commands.Envelope // by id
}

// NewSession returns a session that is not open yet.
func NewSession(id content.SessionID) *Session {
	return &Session{
		Live: loop.New(id), replay: loop.New(id), resumed: loop.New(id),
		chunks: map[events.Hash][]byte{}, again: new(snapshot.Encoder), checker: audit.NewChecker(), At: Epoch, places: map[content.CallID]content.Place{},
		sent: map[string][]commands.Envelope{},
	}
}

// Envelope returns the next envelope, with the current time and catalog.
func (s *Session) Envelope(c commands.Command) commands.Envelope {
	s.Sent++
	taken := s.Taken
	s.Taken = nil
	return commands.Envelope{
		ID: fmt.Sprintf("c%d", s.Sent), Session: s.Live.Session, By: "ann", At: s.At, Command: c, Catalog: s.Offers, Policy: s.Policy,
		Snapshot: taken,
	}
}

// decide decides a command and checks that the state and the command did not change.
func (s *Session) decide(t testing.TB, env commands.Envelope) (evs []events.Event, fold func(events.Entry), err error) {
	t.Helper()
	if s.Terse && s.Live.Handled(env.ID) {
		return loop.DecideAhead(s.Live, env)
	}
	before, asked := encoded(t, s.Live), Render(env.Command)
	evs, fold, err = loop.DecideAhead(s.Live, env)
	if encoded(t, s.Live) != before {
		t.Fatalf("Decide(%s) changed the state that it was given", Render(env.Command))
	}
	if Render(env.Command) != asked {
		t.Fatalf("Decide changed its command from\n%s to\n%s", asked, Render(env.Command))
	}
	if err != nil && len(evs) > 0 {
		t.Fatalf("Decide(%s) = %d events and %v", asked, len(evs), err)
	}
	return evs, fold, err
}

// Do decides a command, encodes and folds its entry, and runs the checks of every entry. The live state is
// the decided one, the others fold what was encoded.
func (s *Session) Do(t testing.TB, env commands.Envelope) ([]events.Event, error) {
	t.Helper()
	evs, fold, err := s.decide(t, env)
	if err != nil || len(evs) == 0 {
		return nil, err
	}
	s.sent[env.ID] = append(s.sent[env.ID], env)
	s.record(t, env.ID, max(env.At, s.Live.At), evs, fold)
	s.compare(t, env)
	return evs, nil
}

// record encodes and folds events as the next entry.
func (s *Session) record(t testing.TB, cause string, at content.Time, evs []events.Event, fold func(events.Entry)) {
	t.Helper()
	s.write(t, events.Entry{
		Version: events.Version, Session: s.Live.Session, Seq: s.head.Seq + 1, Prev: s.head.Hash,
		Cause: cause, At: at, Epoch: epochOf(evs, s.Live.Epoch), Events: evs,
	}, fold)
	for _, ev := range evs {
		if r, ok := ev.(events.ToolCallRequested); ok {
			s.places[r.Call.ID] = r.Call.Place
		}
	}
}

func epochOf(evs []events.Event, now uint64) uint64 {
	if c, ok := evs[0].(events.DriverClaimed); ok {
		return c.Epoch
	}
	return now
}

func (s *Session) write(t testing.TB, e events.Entry, fold func(events.Entry)) {
	t.Helper()
	payload, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := events.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Terse || e.Seq%4 == 0 {
		s.resume(t)
	}
	fold(e)
	s.replay.Fold(read)
	s.resumed.Fold(read)
	s.journal = append(s.journal, payload)
	s.head = journal.Head{Seq: e.Seq, Hash: events.HashOf(payload)}
	s.checker.Add(journal.Record{Head: s.head, Entry: read, Payload: payload})
}

// resume takes a snapshot of the live state, which must be the one that the replayed and the resumed state have,
// and continues from it.
func (s *Session) resume(t testing.TB) {
	t.Helper()
	index := s.index(t, &s.live, s.Live)
	for name, other := range map[string]string{
		"replayed": s.index(t, new(snapshot.Encoder), s.replay), "resumed": s.index(t, s.again, s.resumed),
	} {
		if other != index {
			t.Fatalf("after entry %d the %s state has another snapshot:\n%q, want\n%q", s.head.Seq, name, other, index)
		}
	}
	x, err := snapshot.Open([]byte(index))
	if err == nil {
		s.resumed, s.again, err = x.State(s.chunks)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Take returns the event that confirms a snapshot of the live state.
func (s *Session) Take(t testing.TB) *events.SnapshotTaken {
	t.Helper()
	return &events.SnapshotTaken{Format: snapshot.Version, Digest: events.HashOf([]byte(s.index(t, &s.live, s.Live)))}
}

func (s *Session) index(t testing.TB, e *snapshot.Encoder, state *loop.State) string {
	t.Helper()
	b, err := e.Encode(state, func(digest events.Hash, chunk []byte) error {
		s.chunks[digest] = chunk
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// compare checks that a replay gives the same state, that a repeated command does nothing, and that
// the session is not stuck.
func (s *Session) compare(t testing.TB, env commands.Envelope) {
	t.Helper()
	for name, other := range map[string]*loop.State{"replayed": s.replay, "resumed": s.resumed} {
		if a, b := s.owed(s.Live), s.owed(other); a != b {
			t.Fatalf("after %s the %s state owes\n%s, want\n%s", Render(env.Command), name, b, a)
		}
	}
	if evs, _, err := s.decide(t, env); err != nil || len(evs) > 0 {
		t.Fatalf("Decide again = %d events, %v for the handled command %s", len(evs), err, Render(env.Command))
	}
	if !commands.IsAsk(env.Command) && !ofHost(env.Command) {
		again := env
		again.ID += "-again"
		if evs, _ := loop.Decide(s.Live, again); len(evs) > 0 {
			t.Fatalf("the report %s counts twice: %s", Render(env.Command), RenderEvent(evs[0]))
		}
	}
	if wait := loop.Waiting(s.Live); wait == commands.WaitWorking && len(loop.Pending(s.Live)) == 0 {
		t.Fatalf("after %s the session works, but owes nothing", Render(env.Command))
	}
}

// ofHost reports whether a report is about the start or the end of a host, which each host
// reports once.
func ofHost(c commands.Command) bool {
	r, ok := c.(commands.ReportHooks)
	return ok && strings.HasPrefix(r.Answer.Point, "session_")
}

func (s *Session) owed(state *loop.State) string {
	out := []string{string(loop.Waiting(state))}
	for _, e := range loop.Pending(state) {
		if s.Terse {
			out = append(out, e.Identity())
		} else {
			out = append(out, Render(e))
		}
	}
	return strings.Join(out, " ")
}

// Script returns the session as a script that reproduces it.
func (s *Session) Script(t testing.TB, about string) string {
	t.Helper()
	var recs []journal.Record
	for _, payload := range s.journal {
		e, err := events.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, journal.Record{Entry: e})
	}
	return Script(t, about, s.Live.Session, recs, s.sent)
}

// Finish compares the complete states, folds the journal again from its first byte, and
// audits it.
func (s *Session) Finish(t testing.TB) {
	t.Helper()
	fresh := loop.New(s.Live.Session)
	for _, payload := range s.journal {
		e, err := events.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		fresh.Fold(e)
	}
	want := Render(s.Live)
	for name, other := range map[string]*loop.State{"replayed": s.replay, "resumed": s.resumed, "fresh": fresh} {
		if got := Render(other); got != want {
			t.Errorf("the %s state is\n%s, want\n%s", name, got, want)
		}
	}
	for _, v := range s.checker.Verdict().Faults {
		if v.Invariant == "digests-fit" { // scripts have short words instead of digests
			continue
		}
		t.Errorf("entry %d breaks %s: %s", v.Seq, v.Invariant, v.What)
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
