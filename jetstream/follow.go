package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
)

const (
	// Live copies that wait for a slow reader. What does not fit is read from the
	// stream later.
	liveBuffer = 256

	// The server may lose live copies without a word when leaders change, so a
	// quiet stream is asked now and then whether it really is.
	quiet = 3 * time.Second
)

// Follow yields the entries behind a sequence number, then new ones as they are
// written. It ends without an error when ctx ends. While the servers do not
// answer it waits for them. Live copies are taken as hints only: each entry is
// checked against the chain, and read from the stream when in doubt.
func (j *Journal) Follow(ctx context.Context, s content.SessionID, after uint64) iter.Seq2[journal.Record, error] {
	return j.follow(ctx, s, journal.Head{}, after, nil)
}

// FollowFrom is Follow from behind head, without looking at earlier entries. What
// follows must continue head's chain, else it ends with journal.ErrDamaged.
func (j *Journal) FollowFrom(ctx context.Context, s content.SessionID, head journal.Head) iter.Seq2[journal.Record, error] {
	return j.follow(ctx, s, head, head.Seq, nil)
}

// follow reads from behind head, and yields from behind a sequence number. begin comes
// before both.
func (j *Journal) follow(
	ctx context.Context, s content.SessionID, head journal.Head, after uint64, begin func(context.Context) error,
) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		if !content.IsToken(string(s)) {
			yield(journal.Record{}, fmt.Errorf("follow %q: %w", s, content.ErrBadID))
			return
		}
		n := j.cell.names
		ch := chain{session: s, head: head}
		t := tail{cell: j.cell, stream: n.journalStream(), subject: n.journal(s), at: head.Guard, begin: begin}
		t.adjacent = func(_ stored, before uint64) bool { return before == t.at }
		t.use = func(m stored, _ bool) error {
			if ch.head.Seq < after && ch.skip(m, after) || ch.deleted && m.Seq <= ch.head.Guard {
				return nil
			}
			rec, err := j.record(ctx, s, m)
			if err == nil {
				rec, err = j.extend(ctx, &ch, rec)
			}
			if err != nil || rec.Seq <= after {
				return err
			}
			return goOn(yield(rec, nil))
		}
		if err := t.run(ctx); err != nil {
			yield(journal.Record{}, fmt.Errorf("follow %s after %d: %w", s, ch.head.Seq, err))
		}
	}
}

// errEnough says that the reader wants no more.
var errEnough = errors.New("enough")

func goOn(more bool) error {
	if more {
		return nil
	}
	return errEnough
}

// tail follows the messages on a subject of a stream, without gap or repetition.
// It is owned by the goroutine that iterates.
type tail struct {
	cell    *Cell
	stream  string
	subject string

	begin    func(context.Context) error        // before anything is read, until it succeeds; nil: nothing to do
	use      func(m stored, live bool) error    // takes a message, or does not and leaves no trace of it
	adjacent func(m stored, before uint64) bool // whether a live copy is the next message

	at uint64 // position of the last message that was used
}

// run subscribes first and reads the history then, so that nothing falls between
// the two.
func (t *tail) run(ctx context.Context) error {
	nc := t.cell.nc
	live := make(chan *nats.Msg, liveBuffer)
	sub, err := nc.Subscribe(t.cell.names.live(t.subject), func(msg *nats.Msg) {
		select {
		case live <- msg:
		default: // the next one that fits tells of the gap
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	status := nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(status)

	idle := time.NewTimer(quiet)
	defer idle.Stop()
	err = t.catchUp(ctx)
	for ; err == nil; err = t.tolerate(err) {
		idle.Reset(quiet)
		select {
		case <-ctx.Done():
			return nil
		case msg := <-live:
			err = t.hint(ctx, msg)
		case <-status:
			if nc.IsClosed() {
				return nats.ErrConnectionClosed
			}
			err = t.catchUp(ctx)
		case <-idle.C:
			err = t.catchUp(ctx)
		}
	}
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return nil
	}
	return err
}

// tolerate drops errors that a later attempt may not meet.
func (t *tail) tolerate(err error) error {
	if isTransient(err) || isNoJetStream(err) && !t.cell.nc.IsClosed() {
		return nil
	}
	return err
}

// hint takes a live copy if it is the next message, and reads the stream if one
// is missing in between or the copy does not fit.
func (t *tail) hint(ctx context.Context, msg *nats.Msg) error {
	m, before, err := parseDirect(msg)
	if err != nil || m.Seq <= t.at {
		return nil //nolint:nilerr // not published by the server: nobody's business
	}
	if t.begin == nil && t.adjacent(m, before) {
		if err = t.take(m, true); err == nil || errors.Is(err, errEnough) {
			return err
		}
	}
	return t.catchUp(ctx)
}

func (t *tail) take(m stored, live bool) error {
	if err := t.use(m, live); err != nil {
		return err
	}
	t.at = m.Seq
	return nil
}

// catchUp reads from the stream whatever there is: in batches from any replica,
// then from the leader, whose word is the last.
func (t *tail) catchUp(ctx context.Context) error {
	if t.begin != nil {
		if err := t.begin(ctx); err != nil {
			return err
		}
		t.begin = nil
	}
	for {
		for m, err := range t.cell.batchGet(ctx, t.stream, t.subject, t.at+1) {
			if err != nil {
				return err
			}
			if err := t.take(m, false); err != nil {
				return err
			}
		}
		m, err := t.cell.leaderNext(ctx, t.stream, t.subject, t.at+1)
		if isNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := t.take(m, false); err != nil {
			return err
		}
	}
}
