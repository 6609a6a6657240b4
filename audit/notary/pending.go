package notary

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
)

// move is an entry that was written.
type move struct {
	at   jetstream.Cursor // after the entry
	rest bool             // its session came to rest with it
}

// follow sends the moves of all sessions.
func (n *Notary) follow(ctx context.Context, from jetstream.Cursor, moves chan<- move) error {
	for {
		err := n.observe(ctx, from, moves)
		if !errors.Is(err, jetstream.ErrCursor) || from == (jetstream.Cursor{}) {
			return err
		}
		n.log.Error("the journals do not match the log: reading all of them", zap.Error(err))
		from = jetstream.Cursor{}
	}
}

func (n *Notary) observe(ctx context.Context, from jetstream.Cursor, moves chan<- move) error {
	for rec, err := range n.cell.Journal().Observe(ctx, jetstream.AllSessions, from) {
		if err != nil {
			return err
		}
		if errors.Is(rec.Err, journal.ErrArriving) {
			continue // no entry
		}
		if errors.Is(rec.Err, journal.ErrDamaged) || rec.Seq == 0 {
			n.log.Error("entry not logged", logfield.Session(rec.Entry.Session), zap.Error(rec.Err))
			continue
		}
		select {
		case moves <- move{jetstream.CursorAt(rec), atRest(rec.Entry)}:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// atRest reports whether a session comes to rest with an entry: a turn ended, or the session parked or was
// deleted.
func atRest(e events.Entry) bool {
	return slices.ContainsFunc(e.Kinds(), func(k events.Kind) bool {
		return k == events.KindTurnFinished || k == events.KindParked || k == events.KindSessionDeleted
	})
}

// head is the newest entry of a session that moved since it was logged.
type head struct {
	move

	before jetstream.Cursor // before the first entry that was not logged
	due    time.Time
	resume jetstream.Cursor // where to continue to find all heads except this one and earlier due ones
}

func (h head) leaf(cell string) headlog.Leaf {
	return headlog.Leaf{Cell: cell, Session: h.at.Session, Seq: h.at.Seq, Hash: h.at.Hash}
}

// maxNewest is the number of sessions whose newest leaf is remembered, which prevents most duplicate leaves.
const maxNewest = 1 << 16

// pending has the heads to log.
type pending struct {
	heads  map[content.SessionID]head
	newest map[content.SessionID]uint64 // the newest leaf of sessions that were logged lately
	last   jetstream.Cursor             // of the last entry that was added
}

func newPending() pending {
	return pending{heads: map[content.SessionID]head{}, newest: map[content.SessionID]uint64{}}
}

// add adds an entry and returns when its session is due.
func (p *pending) add(m move, now time.Time) time.Time {
	before := p.last
	if before.Position >= m.at.Position { // all journals are read again
		before = jetstream.Cursor{}
	}
	p.last = m.at
	if m.at.Seq <= p.newest[m.at.Session] {
		return time.Time{}
	}
	h, ok := p.heads[m.at.Session]
	if !ok {
		h = head{before: before, due: now.Add(Within)}
	}
	h.move = m
	if at := now.Add(gather); m.rest && at.Before(h.due) {
		h.due = at
	}
	p.heads[m.at.Session] = h
	return h.due
}

// due returns the heads that are due, in the order of their entries.
func (p *pending) due(now time.Time) (out []head) {
	low := p.last
	for _, h := range p.heads {
		if !h.due.After(now) {
			out = append(out, h)
		} else {
			low = earlier(low, h.before)
		}
	}
	slices.SortFunc(out, func(a, b head) int { return cmp.Compare(a.at.Position, b.at.Position) })
	for i, h := range slices.Backward(out) {
		out[i].resume = low
		low = earlier(low, h.before)
	}
	return out
}

func earlier(a, b jetstream.Cursor) jetstream.Cursor {
	if b.Position < a.Position {
		return b
	}
	return a
}

// next returns when the next head is due, the zero time if there is none.
func (p *pending) next() (at time.Time) {
	for _, h := range p.heads {
		if at.IsZero() || h.due.Before(at) {
			at = h.due
		}
	}
	return at
}

// logged forgets heads that were logged.
func (p *pending) logged(batch []head) {
	for _, h := range batch {
		p.known(headlog.Leaf{Session: h.at.Session, Seq: h.at.Seq})
	}
}

// known notes that a head was logged.
func (p *pending) known(l headlog.Leaf) {
	if h, ok := p.heads[l.Session]; ok && h.at.Seq <= l.Seq {
		delete(p.heads, l.Session)
	}
	if len(p.newest) >= maxNewest {
		clear(p.newest)
	}
	p.newest[l.Session] = max(p.newest[l.Session], l.Seq)
}
