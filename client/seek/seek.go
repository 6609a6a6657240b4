// Package seek finds entries of a long journal without reading the entries before them.
//
// The one idea: a store returns the first entry of a session at or after a position, and positions rise with
// the entries of a journal. So anything that rises along a journal, such as the numbers of entries and turns,
// can be found by binary search: about thirty requests for an entry among millions.
//
// Readers continue from the place that it returns, and verify the chain from there on.
package seek

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/session"
)

// Store has the entries of sessions.
type Store interface {
	// EntryFrom returns the first entry of a session at or after a position, or session.ErrNotFound.
	EntryFrom(ctx context.Context, s content.SessionID, position uint64) (journal.Record, error)
}

// Entry returns the entry with a sequence number, from a session that was read up to head. It returns
// session.ErrNotFound if there is none.
func Entry(ctx context.Context, from Store, s content.SessionID, head journal.Head, seq uint64) (journal.Record, error) {
	if seq == 0 || seq > head.Seq {
		return journal.Record{}, session.ErrNotFound
	}
	return search(ctx, from, s, head, func(rec journal.Record) side {
		switch {
		case rec.Seq < seq:
			return later
		case rec.Seq > seq:
			return earlier
		}
		return here
	})
}

// Turn returns the entry that starts the n-th turn of a session that was read up to head. It returns
// session.ErrNotFound if there is none.
func Turn(ctx context.Context, from Store, s content.SessionID, head journal.Head, n int) (journal.Record, error) {
	return Round(ctx, from, s, head, n, 0)
}

// Round returns the entry that starts a round of the n-th turn, or the turn itself if round is 0. It returns
// session.ErrNotFound if there is none.
func Round(ctx context.Context, from Store, s content.SessionID, head journal.Head, n, round int) (journal.Record, error) {
	return search(ctx, from, s, head, func(rec journal.Record) side { return sideOf(rec, n, round) })
}

// Claim returns the entry with which the host of an epoch claimed a session that was read up to head. It
// returns session.ErrNotFound if there is none.
func Claim(ctx context.Context, from Store, s content.SessionID, head journal.Head, epoch uint64) (journal.Record, error) {
	return search(ctx, from, s, head, func(rec journal.Record) side {
		claim, _ := events.ClaimOf(rec.Entry)
		switch {
		case rec.Entry.Epoch < epoch:
			return later
		case claim.Epoch == epoch:
			return here
		}
		return earlier
	})
}

// Before returns the place just before an entry.
func Before(rec journal.Record) journal.Head {
	if rec.Seq <= 1 {
		return journal.Head{}
	}
	return journal.Head{Seq: rec.Seq - 1, Hash: rec.Entry.Prev, Guard: rec.Guard - 1}
}

// side says where the wanted entry is, relative to another one.
type side int

const (
	unknown side = iota // the entry does not say
	earlier
	here
	later
)

// search finds the entry for which look returns here.
func search(ctx context.Context, from Store, s content.SessionID, head journal.Head, look func(journal.Record) side) (journal.Record, error) {
	low, high := uint64(0), head.Guard // the entry is after low and not after high
	for low < high {
		middle := low + (high-low)/2
		rec, at, err := known(ctx, from, s, middle+1, high, look)
		switch {
		case err != nil:
			return rec, err
		case at == here:
			return rec, nil
		case at == later:
			low = rec.Guard
		default:
			high = middle
		}
	}
	return journal.Record{}, session.ErrNotFound
}

// known returns the first entry between two positions whose side is known. It returns unknown if there is
// none.
func known(ctx context.Context, from Store, s content.SessionID, position, last uint64, look func(journal.Record) side) (journal.Record, side, error) {
	for position <= last {
		rec, err := from.EntryFrom(ctx, s, position)
		switch {
		case errors.Is(err, session.ErrNotFound), err == nil && rec.Guard > last:
			return rec, unknown, nil
		case err != nil:
			return rec, unknown, err
		}
		if at := look(rec); at != unknown {
			return rec, at, nil
		}
		position = rec.Guard + 1
	}
	return journal.Record{}, unknown, nil
}

// sideOf returns where the start of a turn is, or of one of its rounds if round is not 0. Only events of the
// open turn count: results and questions may belong to earlier turns.
func sideOf(rec journal.Record, n, round int) side {
	out := unknown
	for _, ev := range rec.Entry.Events {
		var turn content.TurnID
		of, starts := 0, false
		switch e := any(ev).(type) {
		case events.TurnStarted:
			turn, starts = e.Turn, round == 0
		case events.RoundStarted:
			turn, of, starts = e.Turn, e.Round, round > 0
		case events.ModelCallStarted:
			turn, of = e.Turn, e.Round
		case events.ModelCallFailed:
			turn, of = e.Turn, e.Round
		case events.ReplyRecorded:
			turn, of = e.Turn, e.Round
		case events.RoundFinished:
			turn, of = e.Turn, e.Round
		case events.TurnFinished:
			turn, of = e.Turn, math.MaxInt
		default:
			continue
		}
		switch at := cmp.Or(cmp.Compare(turn.Number(), n), cmp.Compare(of, round)); {
		case at == 0 && starts:
			return here
		case at < 0:
			out = later
		default: // it started in an earlier entry
			out = earlier
		}
	}
	return out
}
