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

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

const (
	ticketKeySize = 32
	ticketSize    = 16
)

var errBadTicketKey = errors.New("the stored key is not valid")

// Tickets makes and verifies the tickets of dispatches. A ticket is a keyed hash of session,
// place and attempt. Only drivers have the cell's key; no journal holds it or anything derived
// from it, and a worker gets only the tickets of tasks on its queue. So a process that shows
// the ticket of a dispatch was given its task. It is safe for concurrent use.
type Tickets struct {
	key []byte
}

// Tickets returns the cell's tickets. The first driver of a cell makes the key.
func (c *Cell) Tickets(ctx context.Context) (*Tickets, error) {
	keys := byteBucket(c, c.names.Nodes(), 0)
	for {
		it, ok, err := keys.get(ctx, layout.TicketsKey)
		if err == nil && !ok {
			it.Value = make([]byte, ticketKeySize)
			_, _ = rand.Read(it.Value) // it never fails
			_, err = keys.swap(ctx, layout.TicketsKey, it.Value, it.Seq)
		}
		switch {
		case api.IsConflict(err): // also with our own write, if its acknowledgement was lost
			continue
		case err == nil && len(it.Value) != ticketKeySize:
			err = errBadTicketKey
		}
		if err != nil {
			return nil, fmt.Errorf("key of tickets: %w", err)
		}
		return &Tickets{key: it.Value}, nil
	}
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
