package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/worker/task"
)

const (
	// unaskedFor is what answers there may be beside those to the requests that are
	// known to stand.
	unaskedFor = 8
	// withdrawTime is how long the server has to answer; a flood of refusals takes
	// it a millisecond.
	withdrawTime = 250 * time.Millisecond
	// refusable is a request that a consumer refuses without looking for a message.
	refusable = `{"batch":"none"}`
)

// errUnheard says that the server may not know that its answers are unwanted.
var errUnheard = errors.New("no answer")

// close withdraws all requests: the server keeps none whose answer nobody would
// hear. Once close returns, whatever was on its way has been handed back. Those who
// wait get task.ErrClosed. If ctx ends first, its cause is returned.
func (p *puller) close(ctx context.Context) error {
	p.mu.Lock()
	sub, standing, resumed := p.sub, len(p.asked), p.resumed
	p.closed, p.sub = true, nil
	for len(p.asked) > 0 {
		p.forget(p.asked[0].number)
	}
	p.fail(task.ErrClosed)
	if p.status != nil {
		p.nc.RemoveStatusListener(p.status)
		p.status = nil
	}
	p.mu.Unlock()
	if sub == nil {
		return nil
	}
	if err := p.withdraw(ctx, sub, standing, resumed); err != nil {
		return fmt.Errorf("withdraw what was asked of %s: %w", p.next, err)
	}
	return nil
}

// withdraw ends the interest in answers. A message that is on its way while the
// interest ends must not be lost, so the server is told to end it with an answer
// that is still to come, behind all that the standing requests can bring, and is then
// asked for things that it refuses until that many have come. After a reconnect the
// server's count of answers is not known here, and the interest simply ends.
func (p *puller) withdraw(ctx context.Context, sub *nats.Subscription, standing int, resumed bool) error {
	over := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(over) })
	if !sub.IsValid() {
		return nil // it went with its connection
	}
	if !resumed && p.flood(sub, standing+unaskedFor) == nil {
		patience := time.NewTimer(withdrawTime)
		defer patience.Stop()
		select {
		case <-over:
			return nil
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	_ = sub.Unsubscribe() // fails only if it is over
	heard, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := p.nc.FlushWithContext(heard); err == nil || p.nc.IsClosed() {
		return nil // without a connection there is no request either
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errUnheard
}

// flood sees to it that n more answers come, and that they are the last.
func (p *puller) flood(sub *nats.Subscription, n int) error {
	pending, _, err := sub.Pending()
	if err != nil {
		return err //nolint:wrapcheck // means that it is over
	}
	delivered, err := sub.Delivered()
	if err != nil {
		return err //nolint:wrapcheck // likewise
	}
	if err := sub.AutoUnsubscribe(int(delivered) + pending + n); err != nil {
		return err //nolint:wrapcheck // likewise
	}
	for range n + 2 { // a message that is just being handled was counted twice
		if err := p.nc.PublishRequest(p.next, p.inbox+"0", []byte(refusable)); err != nil {
			return err //nolint:wrapcheck // likewise
		}
	}
	return nil
}
