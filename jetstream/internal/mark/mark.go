// Package mark writes entries that do not come from a driver: those that record what happened to a session
// as a whole.
//
// They are not sealed, so writing them needs no key of a sealed session.
package mark

import (
	"context"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Writer writes to the journals of a cell.
type Writer struct {
	API   *api.Conn
	Names layout.Names
	Key   string                                                      // the ID of the key that signs; "": not signed
	Sign  func(h nats.Header, s content.SessionID, head journal.Head) // with that key
}

// Claim appends a claim in a new epoch, and more events, after the last entry of a session. It sets the
// fields that follow from the last entry.
func (w Writer) Claim(ctx context.Context, last journal.Record, e events.Entry, claim events.DriverClaimed, more ...events.Event) (journal.Head, error) {
	claim.Epoch, claim.Tickets, claim.Key = last.Entry.Epoch+1, true, w.Key
	e.Epoch, e.Events = claim.Epoch, append([]events.Event{claim}, more...)
	if last.Entry.Sealing != nil {
		e.Sealing = &events.Sealing{ID: last.Entry.Sealing.ID, Nonce: seal.NewNonce()}
	}
	return w.Append(ctx, last, e)
}

// Append appends an entry after the last one of a session, with a time no earlier than that. If it fails,
// the returned head has no guard.
func (w Writer) Append(ctx context.Context, last journal.Record, e events.Entry) (journal.Head, error) {
	e.Session, e.At = last.Entry.Session, max(e.At, last.Entry.At)
	e, payload, next, err := journal.Link(last.Head, e)
	if err != nil {
		return next, err
	}
	msg := nats.NewMsg(w.Names.Journal(e.Session))
	msg.Data = payload
	msg.Header.Set(layout.HeaderGuard, strconv.FormatUint(last.Guard, 10))
	msg.Header.Set(layout.HeaderSeq, strconv.FormatUint(e.Seq, 10))
	msg.Header.Set(layout.HeaderHash, next.Hash.String())
	if _, deletes := events.DeletionOf(e); deletes {
		msg.Header.Set(layout.HeaderKinds, string(events.KindSessionDeleted))
	}
	w.Sign(msg.Header, e.Session, next)
	next.Guard, err = w.API.Publish(ctx, msg)
	return next, err
}
