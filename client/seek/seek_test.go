package seek_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/turnlog/turnlog/client/seek"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/session"
)

// stored is a journal among others, and how often it was asked.
type stored struct {
	all   []journal.Record
	asked int
}

func (s *stored) EntryFrom(_ context.Context, _ content.SessionID, position uint64) (journal.Record, error) {
	s.asked++
	for _, rec := range s.all {
		if rec.Guard >= position {
			return rec, nil
		}
	}
	return journal.Record{}, session.ErrNotFound
}

func (s *stored) add(guard uint64, all ...events.Event) {
	n := uint64(len(s.all) + 1)
	e := events.Entry{Seq: n, Events: all}
	if n > 1 {
		e.Epoch = s.all[n-2].Entry.Epoch
	}
	if c, ok := all[0].(events.DriverClaimed); ok {
		e.Epoch = c.Epoch
	}
	if n > 1 {
		e.Prev = s.all[n-2].Hash
	}
	s.all = append(s.all, journal.Record{Head: journal.Head{Seq: n, Guard: guard, Hash: events.Hash{byte(n), byte(n >> 8)}}, Entry: e})
}

// TestEveryTurnAndEntryIsFound has turns of all lengths, which begin in a separate entry or with the end of the previous turn.
func TestEveryTurnAndEntryIsFound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	st := &stored{}
	at := uint64(0)
	next := func() uint64 {
		at += 1 + r.Uint64N(1000)
		return at
	}
	var claims []uint64
	starts, rounds := map[int]uint64{}, map[[2]int]uint64{}
	st.add(next(), events.RunStarted{})
	const turns = 300
	var ends []events.Event
	for n := 1; n <= turns; n++ {
		id := content.TurnIDFor(n)
		starts[n] = uint64(len(st.all) + 1)
		rounds[[2]int{n, 1}] = starts[n]
		st.add(next(), append(ends, events.TurnStarted{Turn: id}, events.RoundStarted{Turn: id, Round: 1})...)
		for range r.IntN(8) { // of a call in the background, whose turn was another one
			st.add(next(), events.ToolDispatched{Place: content.PlaceOf(max(1, n-3), 1, 1)})
		}
		st.add(next(), events.ReplyRecorded{Turn: id, Round: 1})
		for round := 2; round <= n%5; round++ {
			rounds[[2]int{n, round}] = uint64(len(st.all) + 1)
			st.add(next(), events.RoundFinished{Turn: id, Round: round - 1}, events.RoundStarted{Turn: id, Round: round})
			st.add(next(), events.ReplyRecorded{Turn: id, Round: round})
		}
		if ends = []events.Event{events.TurnFinished{Turn: id}}; r.IntN(2) == 0 {
			st.add(next(), ends...)
			ends = nil
		}
		for range r.IntN(8) {
			st.add(next(), events.Parked{})
		}
		if n%3 == 0 {
			claims = append(claims, uint64(len(st.all)+1))
			st.add(next(), events.DriverClaimed{Epoch: uint64(2 * len(claims))})
		}
	}
	st.add(next(), events.TurnFinished{Turn: content.TurnIDFor(turns)})
	head := st.all[len(st.all)-1].Head
	for n := 1; n <= turns; n++ {
		st.asked = 0
		rec, err := seek.Turn(t.Context(), st, "s", head, n)
		if err != nil || rec.Seq != starts[n] || st.asked > 100 {
			t.Fatalf("turn %d: entry %d, %v, after %d entries; want entry %d", n, rec.Seq, err, st.asked, starts[n])
		}
		if before := seek.Before(rec); before.Seq != rec.Seq-1 || before.Hash != rec.Entry.Prev || before.Guard >= rec.Guard || before.Guard < st.all[rec.Seq-2].Guard {
			t.Fatalf("before turn %d: %+v", n, before)
		}
	}
	for at, want := range rounds {
		st.asked = 0
		if rec, err := seek.Round(t.Context(), st, "s", head, at[0], at[1]); err != nil || rec.Seq != want || st.asked > 100 {
			t.Fatalf("round %v: entry %d, %v, after %d entries; want entry %d", at, rec.Seq, err, st.asked, want)
		}
	}
	for i, want := range claims {
		st.asked = 0
		if rec, err := seek.Claim(t.Context(), st, "s", head, uint64(2*i+2)); err != nil || rec.Seq != want || st.asked > 30 {
			t.Fatalf("claim %d: entry %d, %v, after %d entries; want entry %d", i, rec.Seq, err, st.asked, want)
		}
	}
	if _, err := seek.Claim(t.Context(), st, "s", head, 3); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a claim that is not: %v", err)
	}
	if _, err := seek.Round(t.Context(), st, "s", head, 4, 5); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a round that is not: %v", err)
	}
	for seq := uint64(1); seq <= head.Seq; seq++ {
		st.asked = 0
		if rec, err := seek.Entry(t.Context(), st, "s", head, seq); err != nil || rec.Seq != seq || st.asked > 30 {
			t.Fatalf("entry %d: %d, %v, after %d entries", seq, rec.Seq, err, st.asked)
		}
	}
	if got := seek.Before(st.all[0]); got != (journal.Head{}) {
		t.Errorf("before the first entry: %+v", got)
	}
	for _, n := range []int{0, turns + 1} {
		if _, err := seek.Turn(t.Context(), st, "s", head, n); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("turn %d: %v", n, err)
		}
	}
	for _, seq := range []uint64{0, head.Seq + 1} {
		if _, err := seek.Entry(t.Context(), st, "s", head, seq); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("entry %d: %v", seq, err)
		}
	}
}
