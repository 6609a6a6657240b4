package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
)

// Permitted does something that sends requests, and gives it up as soon as the server
// says that this user may not send one. Nothing else uses the connection meanwhile.
// The error says what to do.
func (c *Cell) Permitted(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := untilDenied(ctx, c.Conn)
	defer stop()
	return c.explain(do(ctx))
}

// untilDenied returns a context that also ends when the server tells the connection
// that it may not do something, and why: a request that is not permitted is never
// answered, and its sender would wait and try again. It is for as long as nothing
// else uses the connection; stop ends that.
func untilDenied(ctx context.Context, nc *nats.Conn) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		switch {
		case errors.Is(err, nats.ErrPermissionViolation):
			cancel(err)
		case before != nil:
			before(nc, sub, err)
		}
	})
	return ctx, func() {
		nc.SetErrorHandler(before)
		cancel(nil)
	}
}

// deniedHint says what to do about something that the server does not permit.
func deniedHint(err error) string {
	if strings.Contains(err.Error(), "Permissions Violation for Subscription") {
		return `this user hears no replies there: give the --inbox-prefix that "turnlog permissions" prints with the user's role`
	}
	return `connect as a user who may ("turnlog permissions ROLE" prints what a role does)`
}
