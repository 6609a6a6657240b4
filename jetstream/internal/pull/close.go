package pull

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/worker/task"
)

const (
	// spareAnswers is how many answers may arrive beyond those to pending requests.
	spareAnswers = 8
	// withdrawTime is how long the server may take to answer a flood of requests.
	withdrawTime = time.Second
	// refusable is a request that a consumer refuses without looking for a message.
	refusable = `{"batch":"none"}`
)

// errUnconfirmed is returned if the server may still deliver messages.
var errUnconfirmed = errors.New("no answer")

// Close withdraws all requests, so that the server delivers nothing to a process that no longer takes
// messages. When Close returns, messages in flight have gone back to the server, and takers have received
// task.ErrClosed. If ctx ends first, Close returns its cause.
func (p *Puller) Close(ctx context.Context) error {
	p.mu.Lock()
	sub, pending, resumed := p.sub, 2*p.asked, p.resumed // messages, and at most one status for each
	p.closed, p.sub = true, nil
	p.dropAll()
	p.fail(task.ErrClosed)
	if p.status != nil {
		p.nc.RemoveStatusListener(p.status)
		p.status = nil
	}
	p.mu.Unlock()
	if sub == nil {
		return nil
	}
	if err := p.withdraw(ctx, sub, pending, resumed); err != nil {
		return fmt.Errorf("withdraw requests to %s: %w", p.next, err)
	}
	return nil
}

// withdraw ends the subscription without losing a message in flight. It limits the subscription to more
// answers than the pending requests can cause, and then sends requests that the server refuses, until the
// limit is reached. After a reconnect the server's count of answers is unknown, so the subscription ends at
// once.
func (p *Puller) withdraw(ctx context.Context, sub *nats.Subscription, pending int, resumed bool) error {
	over := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(over) })
	if !sub.IsValid() {
		return nil // its connection was closed
	}
	if !resumed && p.flood(sub, pending+spareAnswers) == nil {
		patience := time.NewTimer(withdrawTime)
		defer patience.Stop()
		select {
		case <-over:
			return nil
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	_ = sub.Unsubscribe() // fails only if it has ended
	flush, cancel := context.WithTimeout(ctx, api.AskTimeout)
	defer cancel()
	if err := p.nc.FlushWithContext(flush); err == nil || p.nc.IsClosed() {
		return nil // without a connection there are no requests
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errUnconfirmed
}

// flood makes the server send n more answers and no others after them.
func (p *Puller) flood(sub *nats.Subscription, n int) error {
	pending, _, err := sub.Pending()
	if err != nil {
		return err //nolint:wrapcheck // the subscription has ended
	}
	delivered, err := sub.Delivered()
	if err != nil {
		return err //nolint:wrapcheck // likewise
	}
	if err := sub.AutoUnsubscribe(int(delivered) + pending + n); err != nil {
		return err //nolint:wrapcheck // likewise
	}
	for range n + 2 { // two extra, since a message being handled may count twice
		if err := p.nc.PublishRequest(p.next, p.inbox+"0", []byte(refusable)); err != nil {
			return err //nolint:wrapcheck // likewise
		}
	}
	return nil
}
