package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// DeniedError is returned for something that the server does not let this user do. To
// try again does not help: connect as somebody who may.
type DeniedError struct {
	Subject string
	Hearing bool // the user may not hear the subject; else not publish to it
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

// Denied reads what a connection reports when its user is denied something. It returns
// false for any other error.
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

// Allowed lists the roles whose permissions let a user of the cell do what was denied.
func (c *Cell) Allowed(d *DeniedError) []Role {
	return slices.DeleteFunc(Grantable(), func(r Role) bool {
		publish, hear := c.names.grant(r, "*")
		if d.Hearing {
			publish = hear
		}
		return !slices.ContainsFunc(publish, func(pattern string) bool { return covers(pattern, d.Subject) })
	})
}

// covers reports whether a pattern of subjects has the subject, which may be a pattern.
func covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s):
			return false
		case token != s[i]:
			start, any := strings.CutSuffix(token, "*") // q_* names the consumers of all queues
			if !any || !strings.HasPrefix(s[i], start) {
				return false
			}
		}
	}
	return len(p) == len(s)
}

// unheard is how long a request is without an answer before it is looked whether it was
// denied; after that twice as long, and so on.
const unheard = 25 * time.Millisecond

// sent is a message that is to be answered. A server does not answer what it denies:
// it tells the connection, which keeps the last such word only.
type sent struct {
	subject string
	before  error // what the connection had been told when it was sent
}

// sending has to be called before the message is published.
func (c *Cell) sending(subject string) sent { return sent{subject, c.nc.LastError()} }

// denied returns a *DeniedError if the server has said that it lets nobody publish this,
// or hear the answer, and else nil.
func (r sent) denied(nc *nats.Conn) error {
	err := nc.LastError()
	d, ok := Denied(err)
	switch {
	case !ok:
	case d.Hearing && strings.HasPrefix(d.Subject, strings.TrimSuffix(nc.Opts.InboxPrefix, ".")+"."):
		return d // the client subscribes once, so this is no old news
	case d.Hearing && nc.Opts.InboxPrefix == "" && strings.HasPrefix(d.Subject, nats.InboxPrefix):
		return d
	case !d.Hearing && d.Subject == r.subject && !errors.Is(r.before, err):
		return d
	}
	return nil
}

// answered returns a context for the wait for an answer. It ends after a time, and as
// soon as it is known that there will be none.
func (c *Cell) answered(ctx context.Context, d time.Duration, r sent) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &wait{left: d, pause: unheard, end: cancel, denied: func() error { return r.denied(c.nc) }}
	w.next()
	return ctx, w.stop
}

// wait is for an answer. It looks again and again whether there will be one.
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
	w.timer = time.AfterFunc(pause, w.look)
}

func (w *wait) look() {
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

// whyEnded is the error of a wait: why its context ended, if it did.
func whyEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
