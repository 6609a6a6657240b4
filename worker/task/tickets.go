package task

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strconv"
	"sync"

	"github.com/turnlog/turnlog/content"
)

// ticketSize is the number of bytes of a ticket before its encoding.
const ticketSize = 16

// Tickets makes and verifies the tickets of dispatches. A ticket is a keyed hash of session, place and
// attempt. Only drivers have the cell's key, no journal contains a ticket, and a worker gets only the
// tickets of tasks on its queue. So a process that has the ticket of a dispatch has received its task. It
// is safe for concurrent use.
type Tickets struct {
	mu   sync.Mutex
	hash hash.Hash // keyed; preparing it costs more than a ticket
	text []byte    // the input of the last ticket's hash
	sum  []byte    // the last ticket, after its hash
}

// NewTickets returns the tickets of a cell with a key.
func NewTickets(key []byte) *Tickets { return &Tickets{hash: hmac.New(sha256.New, key)} }

// Of returns the ticket of a dispatch.
func (t *Tickets) Of(s content.SessionID, p content.Place, attempt int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.of(s, p, attempt))
}

// Fits reports whether a ticket is that of a dispatch.
func (t *Tickets) Fits(ticket string, s content.SessionID, p content.Place, attempt int) bool {
	if ticket == "" {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return hmac.Equal([]byte(ticket), t.of(s, p, attempt))
}

// of returns a ticket that is valid until the next call. The caller holds the lock.
func (t *Tickets) of(s content.SessionID, p content.Place, attempt int) []byte {
	t.text = append(append(append(append(t.text[:0], s...), '/'), p...), '/')
	t.text = strconv.AppendInt(t.text, int64(attempt), 10)
	t.hash.Reset()
	_, _ = t.hash.Write(t.text) // never fails
	t.sum = t.hash.Sum(t.sum[:0])
	size := len(t.sum)
	t.sum = base64.RawURLEncoding.AppendEncode(t.sum, t.sum[:ticketSize])
	return t.sum[size:]
}
