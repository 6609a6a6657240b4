package jetstream

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
)

// headerTicket carries the ticket of a dispatch, with the task and with the reports about
// it. It is no part of their bodies: those are in the store of blobs when they are large,
// which every worker reads.
const headerTicket = "Turnlog-Ticket"

const (
	ticketsKey    = "tickets.key" // in the bucket of the nodes, which drivers alone read
	ticketKeySize = 32
	ticketSize    = 16
)

var errBadTicketKey = errors.New("it is no key")

// Tickets makes the tickets of dispatches and knows them again. A ticket is a keyed hash
// of the session, the place and the attempt. The key is the cell's: every driver has it
// and nobody else, no journal holds it or anything made of it, and a worker gets no
// tickets but those of the tasks on its queue. So who shows the ticket of a dispatch got
// its task. It is safe for concurrent use.
type Tickets struct {
	key []byte
}

// Tickets returns what makes the cell's tickets. The first driver of a cell makes the key.
func (c *Cell) Tickets(ctx context.Context) (*Tickets, error) {
	for {
		key, made, err := c.ticketKey(ctx)
		if err != nil {
			return nil, fmt.Errorf("key of tickets: %w", err)
		}
		if made {
			return &Tickets{key: key}, nil
		}
	}
}

// ticketKey reads the key, or makes it; made is false if somebody else did in between.
func (c *Cell) ticketKey(ctx context.Context) (key []byte, made bool, err error) {
	bucket := c.names.nodesBucket()
	m, err := c.leaderLast(ctx, kvStream(bucket), kvKey(bucket, ticketsKey))
	none := errors.Is(err, errNoMessage)
	switch {
	case err != nil && !none:
		return nil, false, c.explain(ctx, kvStream(bucket), err)
	case !none && !isMarker(m.Header) && (m.Aimed || len(m.Data) != ticketKeySize):
		return nil, false, errBadTicketKey
	case !none && !isMarker(m.Header):
		return m.Data, true, nil
	}
	key = make([]byte, ticketKeySize)
	_, _ = rand.Read(key) // it never fails
	msg := &nats.Msg{Subject: kvKey(bucket, ticketsKey), Header: nats.Header{}, Data: key}
	msg.Header.Set(headerGuard, strconv.FormatUint(m.Seq, 10))
	err = patiently(ctx, func(ctx context.Context) error {
		_, err := c.publish(ctx, msg)
		return err
	})
	if isConflict(err) { // also with our own, if its acknowledgement was lost
		return nil, false, nil
	}
	return key, err == nil, err
}

// Of returns the ticket of a dispatch.
func (t *Tickets) Of(s content.SessionID, p content.Place, attempt int) string {
	h := hmac.New(sha256.New, t.key)
	_, _ = h.Write([]byte(string(s) + "/" + string(p) + "/" + strconv.Itoa(attempt))) // it never fails
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:ticketSize])
}

// Fits reports whether a ticket is that of a dispatch.
func (t *Tickets) Fits(ticket string, s content.SessionID, p content.Place, attempt int) bool {
	return ticket != "" && hmac.Equal([]byte(ticket), []byte(t.Of(s, p, attempt)))
}
