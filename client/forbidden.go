package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrForbidden is returned when the server does not let this user publish a command:
// asks and decisions are a permission each. Ask whoever gives permissions, or have
// somebody else do it.
var ErrForbidden = errors.New("this user may not publish it")

// suspicious is how long a command may be on its way before the client asks itself
// why: a server does not answer what it forbids.
const suspicious = 50 * time.Millisecond

// permitted returns a context that also ends, with ErrForbidden, once the server has
// said of what is published meanwhile that it is not permitted.
func (c *Client) permitted(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	before := c.nc.LastError()
	var timer *time.Timer
	look := func() {
		switch err := c.nc.LastError(); {
		case ctx.Err() != nil:
		case errors.Is(err, nats.ErrPermissionViolation) && !errors.Is(before, err):
			cancel(fmt.Errorf("%w: %w", ErrForbidden, err))
		default:
			timer.Reset(suspicious)
		}
	}
	ready := make(chan struct{}) // timer is set
	timer = time.AfterFunc(suspicious, func() {
		<-ready
		look()
	})
	close(ready)
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}
