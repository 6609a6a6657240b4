package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// What a read brings of one lane, so that its cost is bounded however many commands
// were sent.
const (
	readMessages = 256
	readBytes    = 4 << 20 // it ends behind the message that exceeds it
)

// maxAhead is how many messages of a lane are asked for at once.
const maxAhead = 16

// laneRead is the part of a read that concerns one lane.
type laneRead struct {
	from  events.Cursor
	found []Message
}

func (i *Inbox) readLane(ctx context.Context, s content.SessionID, from events.Cursor) ([]Message, error) {
	var out []Message
	stream, subject := i.cell.lane(s, from.Lane)
	for last, size, ahead := from.Seq, 0, 1; ; {
		found, err := i.cell.leaderRow(ctx, stream, subject, last+1, ahead)
		if err != nil || len(found) == 0 {
			return out, err
		}
		for _, m := range found {
			msg := Message{Lane: from.Lane, Seq: m.Seq, Last: last, Ticket: m.Header.Get(headerTicket)}
			n, err := i.fill(ctx, &msg, s, m)
			if err != nil {
				return nil, err
			}
			size += n
			msg.More = len(out) == readMessages-1 || size > readBytes
			out = append(out, msg)
			if msg.More {
				return out, nil
			}
			last = m.Seq
		}
		if ahead = min(2*ahead, maxAhead); len(found)*2 < ahead { // other sessions' lie between
			ahead = 1
		}
	}
}

// question is one of several about a subject, each from a sequence further on.
type question struct {
	from   uint64
	answer stored
	none   bool // there was nothing
}

// leaderRow returns the next messages on a subject, at or behind a sequence, as the
// stream's leader knows them: one at least, if there is any. It asks as if one lay right
// behind the other, all at once.
func (c *Cell) leaderRow(ctx context.Context, stream, subject string, seq uint64, ahead int) ([]stored, error) {
	row := make([]*question, ahead)
	for n := range row {
		row[n] = &question{from: seq + uint64(n)}
	}
	err := together(row, func(q *question) (err error) {
		q.answer, err = c.leaderNext(ctx, stream, subject, q.from)
		if q.none = errors.Is(err, errNoMessage); q.none {
			err = nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return inRow(row), nil
}

// inRow returns the answers that leave nothing out. One counts if it was asked for from no
// later than what follows those before: then nothing lies between, nor ever will, for a
// stream goes on behind what it holds. So the first question that brings nothing ends the
// row, whatever was stored while the others were answered.
func inRow(row []*question) []stored {
	var out []stored
	next := row[0].from // what is there before it is known
	for _, q := range row {
		if q.none || q.from > next {
			break
		}
		if q.answer.Seq >= next {
			out, next = append(out, q.answer), q.answer.Seq+1
		}
	}
	return out
}

// fill fills in what a message holds, and returns how much that is. One that cannot be a
// command says so.
func (i *Inbox) fill(ctx context.Context, msg *Message, s content.SessionID, m stored) (size int, err error) {
	limit := maxAsk
	if msg.Lane == events.LaneReport {
		limit = 0 // what a tool brought is not passed over
	}
	data, err := i.cell.unpackWithin(ctx, m.Header, m.Data, limit)
	switch {
	case errors.Is(err, ErrTooLarge):
		msg.Err = fmt.Errorf("%w: %w", commands.ErrBadCommand, err)
	case m.Aimed:
		msg.Err = fmt.Errorf("%w: %w", commands.ErrBadCommand, errAimed)
	case errors.Is(err, ErrBlobMissing):
		msg.Err = err
	case err != nil:
		return 0, err
	default:
		msg.decode(s, data)
	}
	return len(data), nil
}
