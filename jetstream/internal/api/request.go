package api

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// answers receives the answers to all requests of a connection, on one subscription. The client's own
// requests do the same, but each needs a context, and here a second one to notice a denial.
type answers struct {
	mu      sync.Mutex
	prefix  string // of the subjects; "": not subscribed yet
	last    uint64
	waiting map[uint64]*waiter // by number: the last token of the subject, in base 36
	idle    []*waiter          // kept for later requests, at most maxIdle
	check   *time.Timer        // runs checkWaiting
	armed   bool
}

// maxIdle is how many waiters are kept for later requests. A new timer and channel for each request would
// cost more than the request.
const maxIdle = 512

// base is the base of the numbers in subjects.
const base = 36

// waiter is one request that waits for its answer. The goroutine that removes it from waiting puts exactly
// one answer into its channel, which has room for it.
type waiter struct {
	number  uint64
	subject string    // of the request
	before  error     // the connection's last error when the request was sent
	until   time.Time // when it times out; the next check after that ends it
	answer  chan answer
}

type answer struct {
	msg *nats.Msg
	err error
}

// expect adds a request that is about to be sent, and returns the subject for its answer.
func (c *Conn) expect(subject string, d time.Duration) (w *waiter, reply string, err error) {
	before, until := c.nc.LastError(), time.Now().Add(d)
	a := &c.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.prefix == "" {
		if err := c.subscribe(); err != nil {
			return nil, "", err
		}
	}
	if n := len(a.idle); n > 0 {
		w, a.idle = a.idle[n-1], a.idle[:n-1]
	} else {
		w = &waiter{answer: make(chan answer, 1)}
	}
	a.last++
	w.number, w.subject, w.before, w.until = a.last, subject, before, until
	a.waiting[w.number] = w
	if !a.armed {
		a.armed = true
		a.check.Reset(checkEvery)
	}
	var room [64]byte
	return w, string(strconv.AppendUint(append(room[:0], a.prefix...), w.number, base)), nil
}

// subscribe subscribes to the answers. The caller holds the lock.
func (c *Conn) subscribe() error {
	a, prefix := &c.answers, c.nc.NewInbox()+"."
	sub, err := c.nc.Subscribe(prefix+"*", func(msg *nats.Msg) {
		number, err := strconv.ParseUint(strings.TrimPrefix(msg.Subject, prefix), base, 64)
		if w := a.take(number); err == nil && w != nil {
			w.answer <- answer{msg: msg}
		}
	})
	if err != nil {
		return fmt.Errorf("listen for answers: %w", err)
	}
	sub.SetClosedHandler(func(string) { a.close() })
	a.prefix, a.waiting, a.armed, a.check = prefix, make(map[uint64]*waiter), true, time.AfterFunc(checkEvery, c.checkWaiting)
	return nil
}

// take returns the waiting request with a number, once. It returns nil if there is none.
func (a *answers) take(number uint64) *waiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.waiting[number]
	delete(a.waiting, number)
	return w
}

// release keeps a waiter for another request, once its answer was received or can no longer arrive.
func (a *answers) release(w *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.idle) < maxIdle {
		a.idle = append(a.idle, w)
	}
}

// close ends all requests when the connection is closed. The next request gets the connection's error.
func (a *answers) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waiting {
		w.answer <- answer{err: nats.ErrConnectionClosed}
	}
	a.check.Stop()
	a.prefix, a.waiting = "", nil
}

// checkWaiting ends the requests that were denied or have timed out. It runs again while any are waiting.
func (c *Conn) checkWaiting() {
	a := &c.answers
	a.mu.Lock()
	upTo := a.last // a later request may know of a later error
	a.mu.Unlock()
	now, last := time.Now(), c.nc.LastError()
	_, violation := Denied(last)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.armed = len(a.waiting) > 0; !a.armed {
		return
	}
	a.check.Reset(checkEvery)
	for number, w := range a.waiting {
		err := error(nil)
		if violation && number <= upTo {
			err = c.denied(last, w.subject, w.before)
		}
		if err == nil && !now.Before(w.until) {
			err = context.DeadlineExceeded
		}
		if err != nil {
			delete(a.waiting, number)
			w.answer <- answer{err: err}
		}
	}
}

// request sends a message and waits for its answer, for at most d, or until the connection reports that the
// message was denied.
func (c *Conn) request(ctx context.Context, d time.Duration, msg *nats.Msg) (got *nats.Msg, err error) {
	w, reply, err := c.expect(msg.Subject, d)
	if err != nil {
		return nil, err
	}
	msg.Reply = reply
	if err := c.nc.PublishMsg(msg); err != nil {
		c.answers.leave(w)
		return nil, err //nolint:wrapcheck // the callers name the request
	}
	select {
	case a := <-w.answer:
		got, err = a.msg, a.err
		c.answers.release(w)
	case <-ctx.Done():
		c.answers.leave(w)
		return nil, context.Cause(ctx)
	}
	if err == nil && len(got.Data) == 0 && got.Header.Get("Status") == noResponders {
		return nil, nats.ErrNoResponders
	}
	return got, err
}

// leave ends a request that no longer waits for its answer.
func (a *answers) leave(w *waiter) {
	if a.take(w.number) == nil {
		<-w.answer // the goroutine that took it puts the answer there
	}
	a.release(w)
}

// noResponders is the status with which a server answers a request that no one listens to.
const noResponders = "503"
