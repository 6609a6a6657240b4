// Package tombstones ends the journals of sessions that are deleted or erased.
//
// The entries of a journal are on one subject, where permissions cannot show which name wrote them. So a
// named keeper sends a request to a node, on a subject that ends in the keeper's name, and the node writes
// a tombstone with that name.
package tombstones

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// ErrNoNode is returned by Write for a named user if no node answers. Start a node, or let a keeper without
// a name do it.
var ErrNoNode = errors.New("no node answers, and only a node writes the tombstone for a keeper with a name")

const (
	deletionTimeout = 10 * time.Second // how long a node may take to write a tombstone
	answerTime      = time.Second      // after which another node is asked: the server may take long to notice that one is gone

	tries    = 3 // attempts to reach a node
	tryPause = 250 * time.Millisecond
)

// deletion is the request of a named user to delete a session after an entry.
type deletion struct {
	Guard   uint64 `msgpack:"g"`
	Reason  string `msgpack:"r,omitempty"`
	By      string `msgpack:"b,omitempty"`
	Expired bool   `msgpack:"x,omitempty"`
	Erased  bool   `msgpack:"er,omitempty"`
}

// deleted is the answer. An empty one says that the tombstone was written.
type deleted struct {
	Conflict bool   `msgpack:"c,omitempty"`
	Error    string `msgpack:"e,omitempty"` // the tombstone may or may not be written
}

// Write appends the tombstone to a session. For a named user a node does it, and records the name as
// verified. Write returns journal.ErrConflict if last is no longer the last entry, and ErrNoNode. After
// both, it has not changed the session.
func Write(ctx context.Context, cell *jetstream.Cell, last journal.Record, d events.SessionDeleted) (events.Deletion, error) {
	s, subject := last.Entry.Session, layout.New(cell.Namespace()).Deletion(last.Entry.Session, cell.User())
	if cell.User() == "" {
		return write(ctx, cell, last, d)
	}
	data, err := wire.Marshal(deletion{last.Guard, d.Reason, d.By, d.Expired, d.Erased}, wire.Command)
	if err != nil {
		return events.Deletion{}, err
	}
	answer, err := ask(ctx, cell, subject, data)
	if errors.Is(err, ErrNoNode) {
		return events.Deletion{}, err
	}
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	var done events.Deletion
	var is bool
	if err == nil {
		var rec journal.Record
		rec, err = cell.Journal().Last(ctx, s)
		done, is = events.DeletionOf(rec.Entry)
	}
	switch {
	case is: // also after a conflict: a node may have written it without answering
		return done, nil
	case err == nil && answer.Conflict:
		return events.Deletion{}, journal.ErrConflict
	case err == nil:
		err = errors.New("it has no tombstone")
	}
	return events.Deletion{}, fmt.Errorf("%w: %w", journal.ErrUnknown, err)
}

// ask asks a node to write a tombstone. If it does not answer, others are asked. Only one of them can write
// it.
func ask(ctx context.Context, cell *jetstream.Cell, subject string, data []byte) (answer deleted, err error) {
	within, cancel := context.WithTimeout(ctx, deletionTimeout)
	defer cancel()
	refused, silent := 0, false
	for {
		try, end := context.WithTimeout(within, answerTime)
		msg, err := cell.Conn().RequestWithContext(try, subject, data)
		end()
		switch {
		case err == nil:
			return answer, wire.Unmarshal(msg.Data, wire.Command, &answer)
		case api.IsNoResponders(err): // a node may be starting or reconnecting
			if refused++; refused > tries || !pause.For(within, tryPause) {
				if silent {
					return answer, errors.New("a node does not answer")
				}
				return answer, ErrNoNode
			}
		case within.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return answer, fmt.Errorf("ask a node: %w", err)
		default:
			silent = true
		}
	}
}

// write writes a tombstone.
func write(ctx context.Context, cell *jetstream.Cell, last journal.Record, d events.SessionDeleted) (events.Deletion, error) {
	e := events.Entry{
		Session: last.Entry.Session, Cause: "delete/" + rand.Text(), At: max(content.TimeOf(time.Now()), last.Entry.At),
		Epoch: last.Entry.Epoch, Events: []events.Event{d},
	}
	if _, err := cell.Journal().Append(ctx, last.Head, e); err != nil {
		return events.Deletion{}, err
	}
	e.Seq, e.Prev = last.Seq+1, last.Hash
	done, _ := events.DeletionOf(e)
	return done, nil
}

// Serve writes tombstones for users with names until ctx ends. It returns at once. Each request reaches one of
// the cell's nodes.
func Serve(ctx context.Context, cell *jetstream.Cell) error {
	names := layout.New(cell.Namespace())
	sub, err := cell.Conn().QueueSubscribe(names.Deletion(layout.AllSessions, "*"), "nodes", func(msg *nats.Msg) {
		answer, _ := wire.Marshal(serve(ctx, cell, names, msg), wire.Command) // without an answer, the keeper checks for itself
		_ = msg.Respond(answer)
	})
	if err != nil {
		return fmt.Errorf("answer requests to delete sessions: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection may be gone
	return nil
}

func serve(ctx context.Context, cell *jetstream.Cell, names layout.Names, msg *nats.Msg) deleted {
	ctx, cancel := context.WithTimeout(ctx, deletionTimeout)
	defer cancel()
	s, user := names.SessionOf(msg.Subject), names.UserOf(msg.Subject)
	var d deletion
	if err := wire.Unmarshal(msg.Data, wire.Command, &d); s == "" || user == "" || err != nil || api.IsSpoofed(msg.Header) {
		return deleted{Error: "bad request"}
	}
	last, err := cell.Journal().Last(ctx, s)
	if err == nil && last.Guard != d.Guard {
		err = journal.ErrConflict
	}
	if err == nil {
		_, err = write(ctx, cell, last, events.SessionDeleted{By: d.By, User: user, Reason: d.Reason, Expired: d.Expired, Erased: d.Erased})
	}
	switch {
	case errors.Is(err, journal.ErrConflict):
		return deleted{Conflict: true}
	case err != nil:
		return deleted{Error: err.Error()}
	}
	return deleted{}
}
