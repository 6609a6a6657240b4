package jetstream

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
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// ErrNoNode is returned by Delete when no node does it for a user with a name. Start one, or let a keeper
// without a name do it.
var ErrNoNode = errors.New("no node answers, which would write the tombstone of a keeper with a name")

// deletionTimeout is how long a node may take to write a tombstone.
const deletionTimeout = 10 * time.Second

// deletion is the request of a named user to delete a session after an entry.
type deletion struct {
	Guard   uint64 `msgpack:"g"`
	Reason  string `msgpack:"r,omitempty"`
	By      string `msgpack:"b,omitempty"`
	Expired bool   `msgpack:"x,omitempty"`
}

// deleted is the answer. An empty one says that the tombstone is written.
type deleted struct {
	Conflict bool   `msgpack:"c,omitempty"`
	Error    string `msgpack:"e,omitempty"` // it may or may not be written
}

// Delete appends the tombstone to a session. A user with a name has a node do it, which records the name as
// verified: entries of a journal are on one subject, where permissions cannot tell who wrote which name.
// It returns journal.ErrConflict if last is no longer the last entry, and ErrNoNode. After both the session
// is unchanged.
func (c *Cell) Delete(ctx context.Context, last journal.Record, d events.SessionDeleted) (events.Deletion, error) {
	s := last.Entry.Session
	if c.user == "" {
		return c.bury(ctx, last, d)
	}
	data, err := encodeValue(deletion{last.Guard, d.Reason, d.By, d.Expired})
	if err != nil {
		return events.Deletion{}, err
	}
	within, cancel := context.WithTimeout(ctx, deletionTimeout)
	defer cancel()
	msg, err := c.nc.RequestWithContext(within, c.names.Deletion(s, c.user), data)
	for range probeTries { // a node may start, or be about to connect again
		if api.IsNoResponders(err) && pause.For(within, probeTimeout) {
			msg, err = c.nc.RequestWithContext(within, c.names.Deletion(s, c.user), data)
		}
	}
	var answer deleted
	switch {
	case api.IsNoResponders(err):
		return events.Deletion{}, ErrNoNode
	case err == nil:
		err = decodeValue(msg.Data, &answer)
	}
	switch {
	case answer.Conflict:
		return events.Deletion{}, journal.ErrConflict
	case err == nil && answer.Error != "":
		err = errors.New(answer.Error)
	}
	if err != nil {
		return events.Deletion{}, fmt.Errorf("%w: %w", journal.ErrUnknown, err)
	}
	rec, err := c.Journal().Last(ctx, s)
	done, is := events.DeletionOf(rec.Entry)
	if err == nil && !is {
		err = fmt.Errorf("%w: it has no tombstone", journal.ErrUnknown)
	}
	return done, err
}

// bury writes a tombstone.
func (c *Cell) bury(ctx context.Context, last journal.Record, d events.SessionDeleted) (events.Deletion, error) {
	e := events.Entry{
		Session: last.Entry.Session, Cause: "delete/" + rand.Text(), At: max(content.TimeOf(time.Now()), last.Entry.At),
		Epoch: last.Entry.Epoch, Events: []events.Event{d},
	}
	if _, err := c.Journal().Append(ctx, last.Head, e); err != nil {
		return events.Deletion{}, err
	}
	e.Seq, e.Prev = last.Seq+1, last.Hash
	done, _ := events.DeletionOf(e)
	return done, nil
}

// Deletions deletes sessions for users with names until ctx ends. It returns at once. Each request reaches
// one of the cell's nodes.
func (c *Cell) Deletions(ctx context.Context) error {
	sub, err := c.nc.QueueSubscribe(c.names.Deletion(AllSessions, "*"), alarmGroup, func(msg *nats.Msg) {
		answer, _ := encodeValue(c.deleteFor(ctx, msg)) // without it the keeper looks for itself
		_ = msg.Respond(answer)
	})
	if err != nil {
		return fmt.Errorf("answer requests to delete sessions: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection may be gone
	return nil
}

func (c *Cell) deleteFor(ctx context.Context, msg *nats.Msg) deleted {
	ctx, cancel := context.WithTimeout(ctx, deletionTimeout)
	defer cancel()
	s, user := c.names.SessionOf(msg.Subject), c.names.UserOf(msg.Subject)
	var d deletion
	if err := decodeValue(msg.Data, &d); s == "" || user == "" || err != nil || api.IsSpoofed(msg.Header) {
		return deleted{Error: "bad request"}
	}
	last, err := c.Journal().Last(ctx, s)
	if err == nil && last.Guard != d.Guard {
		err = journal.ErrConflict
	}
	if err == nil {
		_, err = c.bury(ctx, last, events.SessionDeleted{By: d.By, User: user, Reason: d.Reason, Expired: d.Expired})
	}
	switch {
	case errors.Is(err, journal.ErrConflict):
		return deleted{Conflict: true}
	case err != nil:
		return deleted{Error: err.Error()}
	}
	return deleted{}
}
