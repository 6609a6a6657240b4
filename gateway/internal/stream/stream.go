package stream

import (
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Event is one thing that a reader receives. Exactly one of Entry, Piece, Void and Live is set.
type Event struct {
	// Cursor is the place after the event. Live events have no place: Entry is 0.
	Cursor Cursor

	Entry *journal.Record
	Piece *Piece
	Void  *Call        // all pieces of this attempt so far are void
	Live  events.Event // progress or a refusal, which may be lost
}

// Stream turns entries and live events into events for one reader. It is owned by one goroutine.
type Stream struct {
	cursor Cursor // of the last entry
	skip   Cursor // nothing is yielded up to here
	reply  *reply // in flight; nil: none

	over  Call                  // the last attempt that ended
	early []events.ContentDelta // fragments of attempts whose start has not arrived
	size  int                   // bytes of early
}

// New returns the stream after a cursor. Its first entry is the entry after the cursor's. For a cursor without the
// position of its entry, use Replay.
func New(c Cursor) *Stream {
	s := &Stream{cursor: Cursor{Entry: c.Entry, Position: c.Position, Hash: c.Hash}}
	if c.Call != (Call{}) {
		s.reply = &reply{known: true, place: Cursor{Call: c.Call, Offset: c.Offset, Part: c.Part, In: c.In, Sum: c.Sum}}
	}
	return s
}

// Replay returns the stream after a cursor, when the journal is read from its first entry. Entries up to the
// cursor's are not yielded.
func Replay(c Cursor) *Stream { return &Stream{skip: c} }

// Seq returns the number of the last entry.
func (s *Stream) Seq() uint64 { return s.cursor.Entry }

// place returns the cursor after the last yielded event.
func (s *Stream) place() Cursor {
	c := s.cursor
	if s.reply != nil {
		p := s.reply.place
		c.Call, c.Offset, c.Part, c.In, c.Sum = p.Call, p.Offset, p.Part, p.In, p.Sum
	}
	return c
}

// Entry handles the next entry and yields the events that end with it.
func (s *Stream) Entry(rec journal.Record, yield func(Event)) {
	if rec.Seq <= s.skip.Entry {
		s.pass(rec)
		return
	}
	for _, ev := range rec.Entry.Events {
		s.follow(ev, yield)
	}
	s.cursor = at(rec.Head)
	yield(Event{Cursor: s.place(), Entry: &rec})
	s.flush(yield)
}

// pass folds an entry that the reader already has.
func (s *Stream) pass(rec journal.Record) {
	for _, ev := range rec.Entry.Events {
		s.follow(ev, func(Event) {})
	}
	s.cursor = at(rec.Head)
	if r := s.reply; r != nil && rec.Seq == s.skip.Entry && s.skip.Offset > 0 {
		r.place.Offset, r.known = s.skip.Offset, false
		r.lose() // the part at the place is unknown
	}
}

// follow handles an event of an entry that is not yielded yet. Its type is any, since a switch over
// events.Event must have all kinds.
func (s *Stream) follow(ev any, yield func(Event)) {
	switch ev := ev.(type) {
	case events.ModelCallStarted:
		if c := (Call{ev.Turn, ev.Round, ev.Attempt}); s.reply == nil || s.reply.place.Call.before(c) {
			s.void(yield)
			s.reply = newReply(c)
		}
	case events.ReplyRecorded:
		c := Call{ev.Turn, ev.Round, ev.Attempt}
		if s.reply != nil && c.before(s.reply.place.Call) {
			return // the reader has it
		}
		if s.reply == nil || s.reply.place.Call != c {
			s.void(yield)
			s.reply = newReply(c)
		}
		put := func(p Piece) { yield(Event{Cursor: s.place(), Piece: &p}) }
		if !s.reply.rest(ev.Items, put) {
			s.void(yield)
			s.reply = newReply(c)
			s.reply.rest(ev.Items, put)
		}
		s.reply, s.over = nil, c
	case events.ModelCallFailed:
		s.fail(Call{ev.Turn, ev.Round, ev.Attempt}, yield)
	case events.TurnFinished:
		if s.reply != nil {
			s.fail(s.reply.place.Call, yield)
		}
	}
}

// fail ends an attempt without a reply.
func (s *Stream) fail(c Call, yield func(Event)) {
	if s.reply != nil && !c.before(s.reply.place.Call) {
		s.void(yield)
		s.reply, s.over = nil, c
	}
}

// void takes back the pieces of the reply in flight.
func (s *Stream) void(yield func(Event)) {
	if s.reply == nil || s.reply.place.Offset == 0 {
		return
	}
	c := s.reply.place.Call
	s.reply = newReply(c)
	s.reply.lose() // its later fragments are also void
	yield(Event{Cursor: s.place(), Void: &c})
}

// Live handles an event that is not recorded.
func (s *Stream) Live(ev events.Event, yield func(Event)) {
	var d events.ContentDelta
	switch ev := ev.(type) { //nolint:gochecksumtype // the others are passed on
	case events.ContentDelta:
		d = ev
	case events.ContentRepeated:
		d = events.ContentDelta(ev)
	default:
		yield(Event{Live: ev})
		return
	}
	c := Call{d.Turn, d.Round, d.Attempt}
	switch {
	case s.reply != nil && s.reply.place.Call == c:
		s.fragment(d, yield)
	case s.reply != nil && c.before(s.reply.place.Call), !s.over.before(c):
	case len(s.early) < maxHeldPieces && s.size < maxHeld:
		s.early, s.size = append(s.early, d), s.size+sizeOf(d)
	}
}

func (s *Stream) fragment(d events.ContentDelta, yield func(Event)) {
	s.reply.fragment(d, func(p Piece) { yield(Event{Cursor: s.place(), Piece: &p}) })
}

// flush handles the fragments that arrived before the entry that starts their attempt.
func (s *Stream) flush(yield func(Event)) {
	if s.reply == nil || len(s.early) == 0 {
		return
	}
	early := s.early
	s.early, s.size = nil, 0
	for _, d := range early {
		s.Live(d, yield)
	}
}
