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

// answers receives the answers to the requests of a connection, on one subscription. The client's own
// requests do the same, but need a context each, and a second one here to notice a denial.
type answers struct {
	mu      sync.Mutex
	prefix  string // of the subjects; "": there is no subscription
	last    uint64
	waiting map[string]chan *nats.Msg // by the last token of the subject; closed with the connection
}

// expect returns the subject for an answer and what receives it.
func (a *answers) expect(nc *nats.Conn) (subject string, answer <-chan *nats.Msg, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.prefix == "" {
		if err := a.subscribe(nc); err != nil {
			return "", nil, err
		}
	}
	a.last++
	token := strconv.FormatUint(a.last, 36)
	c := make(chan *nats.Msg, 1)
	a.waiting[token] = c
	return a.prefix + token, c, nil
}

func (a *answers) subscribe(nc *nats.Conn) error {
	prefix := nc.NewInbox() + "."
	sub, err := nc.Subscribe(prefix+"*", func(msg *nats.Msg) {
		if c := a.take(msg.Subject); c != nil {
			c <- msg
		}
	})
	if err != nil {
		return fmt.Errorf("listen for answers: %w", err)
	}
	sub.SetClosedHandler(func(string) { a.close() })
	a.prefix, a.waiting = prefix, make(map[string]chan *nats.Msg)
	return nil
}

// take returns what waits for the answer on a subject, once; nil: nothing does.
func (a *answers) take(subject string) chan<- *nats.Msg {
	a.mu.Lock()
	defer a.mu.Unlock()
	token := strings.TrimPrefix(subject, a.prefix)
	c := a.waiting[token]
	delete(a.waiting, token)
	return c
}

// close ends all requests when the connection is closed. The next one gets the connection's error.
func (a *answers) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.waiting {
		close(c)
	}
	a.prefix, a.waiting = "", nil
}

// request sends a message and waits for its answer: no longer than d, and no longer than until the
// connection reports that it is denied.
func (c *Conn) request(ctx context.Context, d time.Duration, msg *nats.Msg) (*nats.Msg, error) {
	before := c.nc.LastError()
	subject, answer, err := c.answers.expect(c.nc)
	if err != nil {
		return nil, err
	}
	defer c.answers.take(subject)
	msg.Reply = subject
	if err := c.nc.PublishMsg(msg); err != nil {
		return nil, err //nolint:wrapcheck // the callers name the request
	}
	pause := min(firstCheck, d)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case got, open := <-answer:
			switch {
			case !open:
				return nil, nats.ErrConnectionClosed
			case len(got.Data) == 0 && got.Header.Get("Status") == noResponders:
				return nil, nats.ErrNoResponders
			}
			return got, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
		if err := c.denied(msg.Subject, before); err != nil {
			return nil, err
		}
		if d -= pause; d <= 0 {
			return nil, context.DeadlineExceeded
		}
		pause = min(2*pause, d)
		timer.Reset(pause)
	}
}

// noResponders is the status with which a server answers a request that has no listener.
const noResponders = "503"
