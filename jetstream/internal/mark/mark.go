// Package mark writes entries that no driver writes: those that say what happened to a session as a whole.
//
// What they say is in the clear, so they need no key of a sealed session.
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
	Key   string                                                      // the ID of the key that signs; "": none does
	Sign  func(h nats.Header, s content.SessionID, head journal.Head) // with that key
}

// Claim appends a claim in a new epoch after the last entry of a session, with more events. It sets what follows from the last entry.
func (w Writer) Claim(ctx context.Context, last journal.Record, e events.Entry, claim events.DriverClaimed, more ...events.Event) (journal.Head, error) {
	claim.Epoch, claim.Tickets, claim.Key = last.Entry.Epoch+1, true, w.Key
	e.Epoch, e.Events = claim.Epoch, append([]events.Event{claim}, more...)
	if last.Entry.Sealing != nil {
		e.Sealing = &events.Sealing{ID: last.Entry.Sealing.ID, Nonce: seal.NewNonce()}
	}
	return w.Append(ctx, last, e)
}

// Append appends an entry after the last one of a session, no earlier than that. The head has no guard if it fails.
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
