package move

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// reservation is the message that keeps a journal from being read while its session arrives.
type reservation struct {
	Move  string `json:"move"`
	From  string `json:"from"` // the ID of the source
	Place string `json:"place"`

	seq uint64 // in the stream
}

// target is what the target's journal of a session contains.
type target struct {
	there  bool        // the session has arrived, whatever happened to it since
	held   reservation // the last reservation; its seq is 0 if there is none
	left   bool        // the session left there earlier: its tombstone is the first message
	copied bool        // entries follow the reservation
	end    uint64      // the last sequence on the subject; 0: none
}

// look finds out what the target has. It returns ErrTaken for anything that no move of this session wrote.
func (m *Mover) look(ctx context.Context, j *source) (at target, err error) {
	subject := m.to.names.Journal(j.session)
	msg, err := m.to.api.Next(ctx, m.to.names.JournalStream(), subject, 1)
	switch {
	case errors.Is(err, api.ErrNoMessage):
		return at, nil
	case err != nil:
		return at, err
	}
	if kinds := msg.Header.Get(layout.HeaderKinds); kinds == string(events.KindSessionDeleted) {
		if at.there, err = m.tombstone(ctx, j, msg); at.there || err != nil {
			return at, err
		}
		at.left, at.end = true, msg.Seq
		msg, err = m.to.api.Next(ctx, m.to.names.JournalStream(), subject, at.end+1)
	} else if kinds != layout.KindArriving {
		at.there, err = m.arrived(ctx, j)
		return at, err
	}
	for ; err == nil && msg.Header.Get(layout.HeaderKinds) == layout.KindArriving; msg, err = m.to.api.Next(ctx, m.to.names.JournalStream(), subject, at.end+1) {
		at.held, at.end = reservation{seq: msg.Seq}, msg.Seq
		err := json.Unmarshal(msg.Data, &at.held)
		if msg.Spoofed {
			err = api.ErrSpoofed
		}
		if err != nil {
			return at, fmt.Errorf("%w: its reservation cannot be read (%w)", ErrTaken, err)
		}
		if left := func(a arrival) bool { return a.Cell == at.held.From }; at.held.From != m.from.id && !slices.ContainsFunc(j.moves, left) {
			return at, fmt.Errorf("%w: a move from %s (cell %s) is in progress: finish that first", ErrTaken, at.held.Place, at.held.From)
		}
	}
	switch {
	case errors.Is(err, api.ErrNoMessage):
		return at, nil
	case err == nil && at.held.seq == 0:
		err = fmt.Errorf("%w: the target has an entry after its tombstone", ErrTaken)
	}
	at.copied = err == nil
	return at, err
}

// tombstone judges a tombstone that is the first message at the target. If this session was there before
// and left with that tombstone, it may come back. Otherwise it arrived, and was deleted or left since.
func (m *Mover) tombstone(ctx context.Context, j *source, msg api.Message) (there bool, err error) {
	rec, err := m.to.Journal().From(ctx, j.session, msg.Seq)
	if err != nil {
		return false, err
	}
	d, _ := events.DeletionOf(rec.Entry)
	switch back := func(a arrival) bool { return a.seq == rec.Seq && a.Tombstone == rec.Hash }; {
	case slices.ContainsFunc(j.moves, back):
		return false, nil
	case !j.tombstone.IsZero() && j.last.Seq == 0:
		return false, fmt.Errorf("%w: there, it %s", ErrLost, d)
	case !j.tombstone.IsZero() && rec.Seq > j.last.Seq+1:
		return false, fmt.Errorf("%w: it arrived in the target, and %s since: \"turnlog sessions rm\" removes the rest here", ErrElsewhere, d)
	}
	return false, fmt.Errorf("%w: it %s", ErrTaken, d)
}

// arrived reports whether a readable journal is that of the session, after the move.
func (m *Mover) arrived(ctx context.Context, j *source) (bool, error) {
	for rec, err := range m.to.Journal().Read(ctx, j.session, 0) {
		if err != nil {
			return false, err
		}
		if from := events.MovedFromOf(rec.Entry); from != nil && !j.tombstone.IsZero() && from.Tombstone == j.tombstone {
			return true, nil
		}
	}
	return false, ErrTaken
}

// reserve appends a reservation of this move to what the target has.
func (m *Mover) reserve(ctx context.Context, j *source, at target) (reservation, error) {
	if err := m.before("reserve"); err != nil {
		return reservation{}, err
	}
	held := reservation{Move: ulid.Make().String(), From: m.from.id, Place: m.from.Place}
	data, err := json.Marshal(held)
	if err != nil {
		return held, fmt.Errorf("encode: %w", err)
	}
	msg := nats.NewMsg(m.to.names.Journal(j.session))
	msg.Data = data
	msg.Header.Set(layout.HeaderGuard, strconv.FormatUint(at.end, 10))
	msg.Header.Set(layout.HeaderKinds, layout.KindArriving)
	if held.seq, err = m.to.api.Publish(ctx, msg); api.IsConflict(err) {
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return held, err
}

// remove removes a reservation of this move that nothing follows; another mover would first have appended
// its own. After a tombstone the reservation stays, which does no harm: only this session can come there.
func (m *Mover) remove(ctx context.Context, s content.SessionID, at target, held reservation) error {
	if at.left {
		return nil
	}
	if err := m.before("remove"); err != nil {
		return err
	}
	return m.to.api.Purge(ctx, m.to.names.JournalStream(), m.to.names.Journal(s), held.seq+1)
}

// copy copies the entries after the reservation, from where another mover left off, and appends the claim.
// It returns the sequence of the first copy.
func (m *Mover) copy(ctx context.Context, out *Moved, j *source, held reservation) (first uint64, err error) {
	subject := m.to.names.Journal(j.session)
	guard, there := held.seq, true
	for msg, err := range m.from.api.All(ctx, m.from.names.JournalStream(), m.from.names.Journal(j.session), 0) {
		if err != nil {
			return 0, err
		}
		seq := api.HeaderUint(msg.Header, layout.HeaderSeq)
		if seq > out.Entries {
			break
		}
		if there {
			has, err := m.to.api.Next(ctx, m.to.names.JournalStream(), subject, guard+1)
			switch {
			case errors.Is(err, api.ErrNoMessage):
				there = false
			case err != nil:
				return 0, err
			case !same(has, msg):
				return 0, fmt.Errorf("%w: the copy at sequence %d is not entry %d", ErrTaken, has.Seq, seq)
			default:
				guard = has.Seq
			}
		}
		if !there {
			if guard, err = m.publish(ctx, j, msg, guard); err != nil {
				return 0, err
			}
			out.Copied++
		}
		if first == 0 {
			first = guard
		}
	}
	last := j.last
	last.Guard = guard
	return first, m.claim(ctx, j, last)
}

func same(a, b api.Message) bool {
	return a.Header.Get(layout.HeaderHash) == b.Header.Get(layout.HeaderHash) && bytes.Equal(a.Data, b.Data)
}

// publish stores a copy of an entry.
func (m *Mover) publish(ctx context.Context, j *source, of api.Message, guard uint64) (uint64, error) {
	if err := m.before("copy"); err != nil {
		return 0, err
	}
	if name := of.Header.Get(layout.HeaderBlob); name != "" && !j.blobs[name] {
		return 0, fmt.Errorf("%w: the payload %s was not copied", journal.ErrMissing, name)
	}
	msg := nats.NewMsg(m.to.names.Journal(j.session))
	msg.Data = of.Data
	for _, name := range []string{
		layout.HeaderSeq, layout.HeaderHash, layout.HeaderPrev, layout.HeaderKinds, layout.HeaderTrace, layout.HeaderBlob, layout.HeaderSignature, layout.HeaderStored,
	} {
		if v := of.Header.Get(name); v != "" {
			msg.Header.Set(name, v)
		}
	}
	if msg.Header.Get(layout.HeaderStored) == "" {
		msg.Header.Set(layout.HeaderStored, of.Time.UTC().Format(time.RFC3339Nano))
	}
	msg.Header.Set(layout.HeaderGuard, strconv.FormatUint(guard, 10))
	seq, err := m.to.api.Publish(ctx, msg)
	if api.IsConflict(err) {
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return seq, err
}

// claim appends the entry that says where the session came from, unless it exists.
func (m *Mover) claim(ctx context.Context, j *source, last journal.Record) error {
	has, err := m.to.api.Next(ctx, m.to.names.JournalStream(), m.to.names.Journal(j.session), last.Guard+1)
	switch {
	case err == nil:
		e, bad := events.Decode(has.Data)
		if from := events.MovedFromOf(e); bad != nil && e.Sealing == nil || from == nil || from.Tombstone != j.tombstone {
			return fmt.Errorf("%w: its entries in the target are not followed by its claim", ErrTaken)
		}
		return nil
	case !errors.Is(err, api.ErrNoMessage):
		return err
	}
	if err := m.before("claim"); err != nil {
		return err
	}
	e := events.Entry{Cause: "move/" + ulid.Make().String(), At: content.TimeOf(time.Now())}
	for _, c := range j.cursors { // streams of the target have other sequences, so the causes in the journal decide
		e.Cursors = append(e.Cursors, events.Cursor{Lane: c.Lane, At: c.At + 1})
	}
	_, err = m.to.marks().Claim(ctx, last, e, events.DriverClaimed{
		Node: "move", MovedFrom: &events.MovedFrom{Cell: m.from.id, Place: m.from.Place, Tombstone: j.tombstone, Entry: j.left},
	}, events.Parked{})
	if api.IsConflict(err) {
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}
