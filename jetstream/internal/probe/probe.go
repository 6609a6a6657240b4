// Package probe finds out whether another process is alive, with a request that the process answers.
package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

const (
	// Timeout is how long a probe that looks for dead processes waits.
	Timeout = 250 * time.Millisecond

	// Patient is how long a probe for a person waits. It gives a busy process more time.
	Patient = 2 * time.Second

	tries = 3
)

// Answer answers the probes of a subject as a process until ctx ends. It returns at once.
func Answer(ctx context.Context, nc *nats.Conn, subject, process string, answer func() []byte) error {
	sub, err := nc.Subscribe(subject, func(msg *nats.Msg) {
		_ = msg.RespondMsg(&nats.Msg{Header: nats.Header{layout.HeaderProcess: {process}}, Data: answer()}) // an unanswered probe is repeated
	})
	if err != nil {
		return fmt.Errorf("answer probes on %s: %w", subject, err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection may be gone
	return nil
}

// Ask reports whether a process is alive, and returns its answer and which process gave it. The process is
// dead if nothing subscribes to its subject in two attempts, with a pause between them in which a
// disconnected process can reconnect. It is also dead if it misses three probes, as a frozen host does.
// While the caller's own connection has problems, every process counts as alive.
func Ask(ctx context.Context, nc *nats.Conn, subject string, timeout time.Duration) (answer []byte, process string, alive bool) {
	absent := false
	for range tries {
		msg, err := one(ctx, nc, subject, timeout)
		switch {
		case err == nil:
			return msg.Data, msg.Header.Get(layout.HeaderProcess), true
		case api.IsNoResponders(err) && absent:
			return nil, "", false
		case api.IsNoResponders(err):
			absent = true
			if !pause.For(ctx, Timeout) {
				return nil, "", true
			}
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) || !connected(ctx, nc):
			return nil, "", true
		}
	}
	return nil, "", false
}

func one(ctx context.Context, nc *nats.Conn, subject string, timeout time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return nc.RequestWithContext(ctx, subject, nil) //nolint:wrapcheck // only Ask reads it
}

// connected reports whether the caller's own connection receives messages.
func connected(ctx context.Context, nc *nats.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return nc.FlushWithContext(ctx) == nil
}
