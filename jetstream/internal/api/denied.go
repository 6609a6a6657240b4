package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// DeniedError is returned for an operation that the server does not permit this user. Retrying
// does not help: connect as a user with permission.
type DeniedError struct {
	Subject string
	Hearing bool // the user may not subscribe to the subject; else not publish to it
	err     error
}

// Error says what the user may not do.
func (e *DeniedError) Error() string {
	if e.Hearing {
		return fmt.Sprintf("this user may not hear %q", e.Subject)
	}
	return fmt.Sprintf("this user may not publish to %q", e.Subject)
}

// Unwrap returns what the connection reported, a nats.ErrPermissionViolation.
func (e *DeniedError) Unwrap() error { return e.err }

// Denied parses what a connection reports when its user is denied something. It returns false
// for any other error.
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

// firstCheck is how long a request waits before it checks whether it was denied. Each further
// check waits twice as long.
const firstCheck = 25 * time.Millisecond

// sent is a message that expects an answer. The connection keeps only the last denial.
type sent struct {
	subject string
	before  error // the connection's last error when the message was sent
}

// sending must be called before the message is published.
func (c *Conn) sending(subject string) sent { return sent{subject, c.nc.LastError()} }

// denied returns a *DeniedError if the server has said that this user may not publish the
// message or hear its answer, else nil.
func (s sent) denied(nc *nats.Conn) error {
	err := nc.LastError()
	d, ok := Denied(err)
	switch {
	case !ok:
	case d.Hearing && strings.HasPrefix(d.Subject, strings.TrimSuffix(nc.Opts.InboxPrefix, ".")+"."):
		return d // the client subscribes once, so this is never stale
	case d.Hearing && nc.Opts.InboxPrefix == "" && strings.HasPrefix(d.Subject, nats.InboxPrefix):
		return d
	case !d.Hearing && d.Subject == s.subject && !errors.Is(s.before, err):
		return d
	}
	return nil
}

// await returns a context for the wait for an answer. It ends after d, and as soon as it is
// known that no answer will come. The returned function releases it.
func (c *Conn) await(ctx context.Context, d time.Duration, s sent) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &wait{left: d, pause: firstCheck, end: cancel, denied: func() error { return s.denied(c.nc) }}
	w.next()
	return ctx, w.stop
}

// wait checks again and again whether an answer can still come.
type wait struct {
	end    context.CancelCauseFunc
	denied func() error

	mu    sync.Mutex
	timer *time.Timer
	left  time.Duration
	pause time.Duration
}

func (w *wait) next() {
	w.mu.Lock()
	defer w.mu.Unlock()
	pause := min(w.pause, w.left)
	w.left, w.pause = w.left-pause, 2*w.pause
	w.timer = time.AfterFunc(pause, w.check)
}

func (w *wait) check() {
	if err := w.denied(); err != nil {
		w.end(err)
		return
	}
	w.mu.Lock()
	over := w.left <= 0
	w.mu.Unlock()
	if over {
		w.end(context.DeadlineExceeded)
		return
	}
	w.next()
}

func (w *wait) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.end(nil)
}

// endOf returns the error of a wait: why its context ended, if it did.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
