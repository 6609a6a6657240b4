package jetstream

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/worker/task"
)

const apiMsgNext = "$JS.API.CONSUMER.MSG.NEXT."

const (
	// A request that the server loses without a word, as it does when leaders
	// change at the wrong moment, keeps a claimer waiting until it would be over.
	// So requests are short while the server is in trouble.
	pullExpiry   = 5 * time.Second
	shortExpiry  = time.Second
	pullGrace    = 500 * time.Millisecond // behind the expiry, for the server's word of it
	pullPause    = 100 * time.Millisecond // behind a refusal
	troubleLasts = 10 * time.Second       // behind the last refusal
)

// What the server says to a request instead of sending a message.
const (
	statusExpired      = "408"
	statusNoResponders = "503"
)

// puller takes messages from a durable consumer for whoever waits, one by one. A
// request stands on the server for each one that waits, so a message goes out
// the moment it is there; none is fetched ahead, since its lease would run while
// it lies here.
//
// A single request cannot be taken back: what comes for one whose claimer has left
// goes to the next in line, or to stray. All of them can be withdrawn together; see
// close.
type puller struct {
	nc    *nats.Conn
	next  string          // the subject of requests
	stray func(*nats.Msg) // hands a message back

	mu      sync.Mutex
	sub     *nats.Subscription // nil before the first take
	status  chan nats.Status   // of the connection: made anew, or closed for good
	inbox   string
	waiting []chan pulled // in order of arrival; each has room for one
	asked   []request     // the requests that stand, oldest first
	number  uint64        // of the last request
	resumed bool          // on another connection, which counts answers anew
	closed  bool
	trouble trouble
}

// request is one that stands on the server. Messages do not say which one they
// come for; the server takes the oldest.
type request struct {
	number uint64
	over   *time.Timer // fires when the server should have said something
}

// pulled is what came of waiting.
type pulled struct {
	msg *nats.Msg
	err error
}

// trouble is a row of refusals.
type trouble struct {
	since, last time.Time
}

// refused counts a refusal and returns for how long there has been none but those.
func (t *trouble) refused(now time.Time) time.Duration {
	if now.Sub(t.last) > shortExpiry { // a request has stood in between
		t.since = now
	}
	t.last = now
	return now.Sub(t.since)
}

func newPuller(nc *nats.Conn, stream, consumer string, stray func(*nats.Msg)) *puller {
	return &puller{nc: nc, next: apiMsgNext + stream + "." + consumer, stray: stray}
}

// take waits for the next message. It returns context.Cause(ctx) when ctx ends,
// and an error if the server refuses for longer than an election may take.
func (p *puller) take(ctx context.Context) (*nats.Msg, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	mine, status, err := p.join()
	if err != nil {
		return nil, err
	}
	for {
		select {
		case got := <-mine:
			return got.msg, got.err
		case <-ctx.Done():
			p.leave(mine)
			return nil, context.Cause(ctx)
		case <-status:
			p.reconnected()
		}
	}
}

func (p *puller) join() (chan pulled, chan nats.Status, error) {
	mine := make(chan pulled, 1)
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
	p.waiting = append(p.waiting, mine)
	p.ask()
	return mine, p.status, nil
}

// leave takes a claimer out of the line, and what it was handed in that instant
// to the next.
func (p *puller) leave(mine chan pulled) {
	p.mu.Lock()
	p.waiting = slices.DeleteFunc(p.waiting, func(w chan pulled) bool { return w == mine })
	p.mu.Unlock()
	select {
	case got := <-mine:
		if got.msg != nil {
			p.deliver(got.msg)
		}
	default:
	}
}

// ask puts a request on the server for everyone who waits without one. The lock
// is held.
func (p *puller) ask() {
	if p.closed {
		return
	}
	expiry := pullExpiry
	if !p.trouble.last.IsZero() && time.Since(p.trouble.last) < troubleLasts {
		expiry = shortExpiry
	}
	body := []byte(`{"batch":1,"expires":` + strconv.FormatInt(int64(expiry), 10) + `}`)
	for len(p.asked) < len(p.waiting) {
		p.number++
		number := p.number
		if err := p.nc.PublishRequest(p.next, p.inbox+strconv.FormatUint(number, 10), body); err != nil {
			time.AfterFunc(expiry, p.askAgain) // cut off; a new connection asks at once
			return
		}
		over := time.AfterFunc(expiry+pullGrace, func() { p.lost(number) })
		p.asked = append(p.asked, request{number, over})
	}
}

func (p *puller) askAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ask()
}

// lost puts another request in the place of one that the server said nothing to.
func (p *puller) lost(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(number)
	p.ask()
}

// forget takes a request for over. The lock is held.
func (p *puller) forget(number uint64) {
	i := slices.IndexFunc(p.asked, func(r request) bool { return r.number == number })
	if i >= 0 {
		p.asked[i].over.Stop()
		p.asked = slices.Delete(p.asked, i, i+1)
	}
}

// reconnected takes all requests for lost, which they are if the server that
// kept them is, and ends the wait if the connection is closed for good.
func (p *puller) reconnected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.asked) > 0 {
		p.forget(p.asked[0].number)
	}
	p.resumed = true
	if p.nc.IsClosed() {
		p.fail(nats.ErrConnectionClosed)
		return
	}
	p.ask()
}

// receive gets all that the server says to requests: messages, which come under
// their own subjects, and words about a request, which come under its.
func (p *puller) receive(msg *nats.Msg) {
	p.mu.Lock()
	word, isWord := strings.CutPrefix(msg.Subject, p.inbox)
	if !isWord {
		if len(p.asked) > 0 {
			p.forget(p.asked[0].number)
		}
		p.mu.Unlock()
		p.deliver(msg)
		return
	}
	defer p.mu.Unlock()
	if number, err := strconv.ParseUint(word, 10, 64); err == nil {
		p.forget(number)
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

// deliver hands a message to the first in line.
func (p *puller) deliver(msg *nats.Msg) {
	p.mu.Lock()
	if len(p.waiting) == 0 {
		p.mu.Unlock()
		p.stray(msg)
		return
	}
	first := p.waiting[0]
	p.waiting = p.waiting[1:]
	p.mu.Unlock()
	first <- pulled{msg: msg}
}

// refused asks again a little later, as long as that can help. The lock is held.
func (p *puller) refused(status, description string) {
	switch {
	case p.trouble.refused(time.Now()) < patience:
		time.AfterFunc(pullPause, p.askAgain)
	case status == statusNoResponders:
		p.fail(ErrNotProvisioned)
	default:
		p.fail(fmt.Errorf("refused: %s %s", status, description))
	}
}

// fail ends the wait of everyone. The lock is held.
func (p *puller) fail(err error) {
	for _, w := range p.waiting {
		w <- pulled{err: fmt.Errorf("pull from %s: %w", p.next, err)}
	}
	p.waiting, p.trouble.since = nil, time.Now()
}
