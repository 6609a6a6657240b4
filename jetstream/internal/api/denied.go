package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// DeniedError is returned for an operation that the server does not permit this user. Connect as a
// user with the permission.
type DeniedError struct {
	Subject string
	Hearing bool // the user may not subscribe to the subject; otherwise, may not publish to it
	err     error
}

// Error describes the missing permission.
func (e *DeniedError) Error() string {
	if e.Hearing {
		return fmt.Sprintf("this user may not hear %q", e.Subject)
	}
	return fmt.Sprintf("this user may not publish to %q", e.Subject)
}

// Unwrap returns the connection's error, a nats.ErrPermissionViolation.
func (e *DeniedError) Unwrap() error { return e.err }

// Denied parses a connection's permission violation. It returns false for any other error.
func Denied(err error) (*DeniedError, bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil, false
	}
	if d, ok := errors.AsType[*DeniedError](err); ok {
		return d, true
	}
	text := err.Error() // … Permissions Violation for Publish to "subject"
	before, rest, _ := strings.Cut(text, `"`)
	subject, _, _ := strings.Cut(rest, `"`)
	return &DeniedError{Subject: subject, Hearing: strings.Contains(before, "Subscription"), err: err}, true
}

// checkEvery is how often waiting requests check whether they were denied. A longer wait for many messages
// doubles the pause after each check.
const checkEvery = 25 * time.Millisecond

// denied returns a *DeniedError if the connection's last error says that this user may not publish to a
// subject, or may not receive answers. The connection keeps only the last denial. before is its last error
// when the message was sent.
func (c *Conn) denied(last error, subject string, before error) error {
	inbox := c.nc.Opts.InboxPrefix
	d, ok := Denied(last)
	switch {
	case !ok:
	case d.Hearing && strings.HasPrefix(d.Subject, strings.TrimSuffix(inbox, ".")+"."):
		return d // the client subscribes once, so this is never stale
	case d.Hearing && inbox == "" && strings.HasPrefix(d.Subject, nats.InboxPrefix):
		return d
	case !d.Hearing && d.Subject == subject && !errors.Is(before, last):
		return d
	}
	return nil
}

// await returns a context for the wait for an answer to a message that is published next. The context ends
// after d, or as soon as the connection reports that there will be no answer. Call the returned function to
// release it.
func (c *Conn) await(ctx context.Context, d time.Duration, subject string) (context.Context, func()) {
	return c.awaitSince(ctx, d, subject, c.nc.LastError())
}

// awaitSince is await for messages that were published after the connection's last error was before.
func (c *Conn) awaitSince(ctx context.Context, d time.Duration, subject string, before error) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	var timer *time.Timer
	pause := min(checkEvery, d)
	timer = time.AfterFunc(math.MaxInt64, func() { // runs only after Reset, when timer is assigned
		switch err := c.denied(c.nc.LastError(), subject, before); {
		case ctx.Err() != nil: // released
		case err != nil:
			end(err)
		case pause >= d:
			end(context.DeadlineExceeded)
		default:
			d -= pause
			pause = min(2*pause, d)
			timer.Reset(pause)
		}
	})
	timer.Reset(pause)
	return ctx, func() {
		timer.Stop()
		end(nil)
	}
}

// endOf returns the cause of a context's end, or err if it has not ended.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
