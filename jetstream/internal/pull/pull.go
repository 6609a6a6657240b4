// Package pull takes messages from a durable consumer one by one, for any number of waiting takers.
//
// It asks the server for a message for every fourth taker, rounded up, and asks again when half of those are
// left, so the server delivers a message at once. The other takers are free for messages from elsewhere, see
// Offer. Takers share requests, because the server checks every pending request for each message. No message is fetched ahead, since its lease would run while it waits here. A
// request cannot be withdrawn: a message for a taker that has left goes to the next taker, or back to the
// server. Close withdraws all requests at once.
package pull

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/worker/task"
)

const (
	// The server may lose a request without notice when leaders change, which blocks its taker until the
	// request expires. So requests are short while the server has problems.
	expiry       = 5 * time.Second
	shortExpiry  = time.Second
	grace        = 500 * time.Millisecond // after the expiry, for the server's notice of it
	pause        = 100 * time.Millisecond // after a refusal
	troubleLasts = 10 * time.Second       // after the last refusal
)

// Statuses that the server sends instead of messages, and the header that says how many of a request's
// messages it will not send.
const (
	statusExpired      = "408"
	statusNoResponders = "503"

	headerUnsent = "Nats-Pending-Messages"
)

// Puller takes messages from one durable consumer. It is safe for concurrent use.
type Puller struct {
	nc     *nats.Conn
	next   string          // the subject for requests
	unused func(*nats.Msg) // returns a message to the server

	mu      sync.Mutex
	sub     *nats.Subscription // nil before the first take
	status  chan nats.Status   // of the connection: re-established, or closed permanently
	inbox   string
	takers  []chan result // in order of arrival; each has room for one message
	pending []request     // on the server, oldest first, and not fulfilled
	asked   int           // messages that the server may still send, at most
	number  uint64        // of the last request
	resumed bool          // on another connection, which counts answers from zero
	closed  bool
	trouble trouble
}

// request is pending on the server. A message does not say which request it answers, and the server does
// not say when it has sent the last message of a request.
type request struct {
	number uint64
	batch  int         // number of messages that it asks for
	lost   *time.Timer // fires when the server has answered or lost the request
}

type result struct {
	msg *nats.Msg
	err error
}

// trouble is a series of refusals.
type trouble struct {
	since, last time.Time
}

// refused records a refusal and returns how long there have been nothing but refusals.
func (t *trouble) refused(now time.Time) time.Duration {
	if now.Sub(t.last) > shortExpiry { // a request was accepted in between
		t.since = now
	}
	t.last = now
	return now.Sub(t.since)
}

// New returns a Puller for a consumer. It calls unused with messages that no taker wants.
func New(nc *nats.Conn, stream, consumer string, unused func(*nats.Msg)) *Puller {
	return &Puller{nc: nc, next: api.MsgNext + stream + "." + consumer, unused: unused}
}

// Take waits for the next message. It returns context.Cause(ctx) when ctx ends, task.ErrClosed when the
// Puller is closed, and another error if the server refuses for longer than an election may take.
func (p *Puller) Take(ctx context.Context) (*nats.Msg, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	taker, status, err := p.join()
	if err != nil {
		return nil, err
	}
	for {
		select {
		case got := <-taker:
			return got.msg, got.err
		case <-ctx.Done():
			p.leave(taker)
			return nil, context.Cause(ctx)
		case <-status:
			p.reconnected()
		}
	}
}

func (p *Puller) join() (chan result, chan nats.Status, error) {
	taker := make(chan result, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, fmt.Errorf("pull from %s: %w", p.next, task.ErrClosed)
	}
	if p.sub == nil {
		inbox := p.nc.NewInbox()
		sub, err := p.nc.Subscribe(inbox+".*", p.receive)
		if err != nil {
			return nil, nil, fmt.Errorf("pull from %s: %w", p.next, err)
		}
		p.sub, p.inbox, p.status = sub, inbox+".", p.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	}
	if p.nc.IsClosed() {
		return nil, nil, fmt.Errorf("pull from %s: %w", p.next, nats.ErrConnectionClosed)
	}
	p.takers = append(p.takers, taker)
	p.ask()
	return taker, p.status, nil
}

// leave removes a taker from the line, and passes on a message that it has just received.
func (p *Puller) leave(taker chan result) {
	p.mu.Lock()
	p.takers = slices.DeleteFunc(p.takers, func(t chan result) bool { return t == taker })
	p.mu.Unlock()
	select {
	case got := <-taker:
		if got.msg != nil {
			p.deliver(got.msg)
		}
	default:
	}
}

// ask sends a request if the server may send at most half as many messages as it should. The caller holds the
// lock.
func (p *Puller) ask() {
	want := (len(p.takers) + 3) / 4
	batch := want - p.asked
	if p.closed || 2*batch < want || batch <= 0 {
		return
	}
	expires := expiry
	if !p.trouble.last.IsZero() && time.Since(p.trouble.last) < troubleLasts {
		expires = shortExpiry
	}
	p.number++
	number := p.number
	body := fmt.Appendf(nil, `{"batch":%d,"expires":%d}`, batch, expires)
	if err := p.nc.PublishRequest(p.next, p.inbox+strconv.FormatUint(number, 10), body); err != nil {
		time.AfterFunc(expires, p.askAgain) // disconnected; a new connection asks at once
		return
	}
	lost := time.AfterFunc(expires+grace, func() { p.lost(number) })
	p.pending = append(p.pending, request{number, batch, lost})
	p.asked += batch
}

func (p *Puller) askAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ask()
}

// lost drops a request for which nothing more will come: it was fulfilled, or the server lost it.
func (p *Puller) lost(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(number, "")
	p.ask()
}

// drop removes a pending request. unsent is the number of its messages that the server will not send; "":
// unknown. The caller holds the lock.
func (p *Puller) drop(number uint64, unsent string) {
	i := slices.IndexFunc(p.pending, func(r request) bool { return r.number == number })
	if i < 0 {
		return
	}
	p.pending[i].lost.Stop()
	p.pending = slices.Delete(p.pending, i, i+1)
	if n, err := strconv.Atoi(unsent); err == nil {
		p.asked = max(0, p.asked-n)
	}
	others := 0
	for _, r := range p.pending {
		others += r.batch
	}
	p.asked = min(p.asked, others)
}

// dropAll forgets all requests. The caller holds the lock.
func (p *Puller) dropAll() {
	for _, r := range p.pending {
		r.lost.Stop()
	}
	p.pending, p.asked = p.pending[:0], 0
}

// reconnected drops all requests, which the previous server lost, and ends all waits if the connection was
// closed permanently.
func (p *Puller) reconnected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropAll()
	p.resumed = true
	if p.nc.IsClosed() {
		p.fail(nats.ErrConnectionClosed)
		return
	}
	p.ask()
}

// receive handles the server's answers: messages, which arrive on their own subjects, and statuses, which
// arrive on the subject of their request.
func (p *Puller) receive(msg *nats.Msg) {
	p.mu.Lock()
	suffix, isStatus := strings.CutPrefix(msg.Subject, p.inbox)
	if !isStatus {
		if p.asked--; p.asked <= 0 {
			p.dropAll()
		}
		p.mu.Unlock()
		p.deliver(msg)
		return
	}
	defer p.mu.Unlock()
	if number, err := strconv.ParseUint(suffix, 10, 64); err == nil {
		p.drop(number, msg.Header.Get(headerUnsent))
	}
	if p.closed {
		return
	}
	if status := msg.Header.Get("Status"); status != statusExpired {
		p.refused(status, msg.Header.Get("Description"))
		return
	}
	p.ask()
}

// deliver hands a message to the first taker in line.
func (p *Puller) deliver(msg *nats.Msg) {
	p.mu.Lock()
	if len(p.takers) == 0 {
		p.mu.Unlock()
		p.unused(msg)
		return
	}
	p.serve(msg)
	p.ask()
	p.mu.Unlock()
}

// Offer hands a message that did not come from the server's consumer to a taker, and reports whether one is
// free: the server may send messages for the others.
func (p *Puller) Offer(msg *nats.Msg) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.takers) <= p.asked {
		return false
	}
	p.serve(msg)
	return true
}

// serve hands a message to the first taker in line, which has room for it. The caller holds the lock.
func (p *Puller) serve(msg *nats.Msg) {
	first := p.takers[0]
	p.takers = p.takers[1:]
	first <- result{msg: msg}
}

// refused asks again after a pause, unless refusals persist. The caller holds the lock.
func (p *Puller) refused(status, description string) {
	switch {
	case p.trouble.refused(time.Now()) < api.Patience:
		time.AfterFunc(pause, p.askAgain)
	case status == statusNoResponders:
		p.fail(api.ErrNotProvisioned)
	default:
		p.fail(fmt.Errorf("refused: %s %s", status, description))
	}
}

// fail ends the wait of every taker. The caller holds the lock.
func (p *Puller) fail(err error) {
	for _, t := range p.takers {
		t <- result{err: fmt.Errorf("pull from %s: %w", p.next, err)}
	}
	p.takers, p.trouble.since = nil, time.Now()
}
