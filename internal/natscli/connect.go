package natscli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

const (
	// One server gets this long to accept the connection, and again to greet.
	dialTimeout = 5 * time.Second

	// A run token lapses after 12 s: a dead connection must be detected and
	// replaced in less.
	pingInterval  = 4 * time.Second
	reconnectWait = 250 * time.Millisecond
)

// Connect opens a connection that the server shows under name, and logs what happens
// to it. It reconnects forever, and refuses to publish while disconnected,
// since a late append is worse than a failed one. ctx bounds the first connect only;
// if it ends first, its cause is returned. Errors are [ErrNoServer] if no server
// answers and [ErrSettings] if the settings are wrong.
func (f *Flags) Connect(ctx context.Context, name string, log *zap.Logger) (*nats.Conn, error) {
	m := f.merged()
	d := &dialer{via: f.Dial, ctx: ctx}
	var used *nats.Options // nil until the settings were checked
	last := func(o *nats.Options) error {
		if err := m.apply(o); err != nil {
			return err
		}
		if o.CustomDialer != nil && f.Dial == nil { // a context's proxy
			d.via = o.CustomDialer.Dial
		}
		o.CustomDialer, used = d, o
		return nil
	}
	nc, err := m.open(append(persistentOptions(log.Named("nats")), nats.Name(name), last)...)
	failures := d.settle()
	switch {
	case err == nil && ctx.Err() == nil:
		return nc, nil
	case err == nil:
		nc.Close() // settle came too late to keep it
	}
	switch {
	case used == nil:
		return nil, fmt.Errorf("connect to NATS: %w", err)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connect to NATS at %s: %w", redact(used.Servers), context.Cause(ctx))
	}
	return nil, explain(err, used, failures)
}

// persistentOptions returns the options for a connection that programs rely on for days.
func persistentOptions(log *zap.Logger) []nats.Option {
	return []nats.Option{
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: closed by the program
				log.Warn("connection lost", zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("connection restored", zap.String("server", nc.ConnectedUrlRedacted()))
		}),
		nats.ClosedHandler(func(nc *nats.Conn) {
			if err := nc.LastError(); err != nil && !errors.Is(err, nats.ErrPermissionViolation) { // that one was logged, and closes nothing
				log.Error("connection closed permanently", zap.Error(err))
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("NATS connection error", zap.String("subject", subject), zap.Error(err))
		}),
	}
}

// dialer dials for the client. The caller's context bounds the first connect, and not
// later ones. It records why dialing failed, which the client does not return.
type dialer struct {
	via func(network, address string) (net.Conn, error) // nil: TCP

	mu       sync.Mutex
	ctx      context.Context //nolint:containedctx // nil after the first connect
	failures []error
}

// Dial implements the client's dialer.
func (d *dialer) Dial(network, address string) (conn net.Conn, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx := cmp.Or(d.ctx, context.Background())
	if d.via != nil {
		conn, err = d.via(network, address)
	} else {
		conn, err = (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	}
	switch {
	case d.ctx == nil:
	case err != nil:
		d.failures = append(d.failures, err)
	default:
		// The client reads the greeting without a context; closing ends that wait.
		context.AfterFunc(ctx, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.ctx != nil {
				_ = conn.Close()
			}
		})
	}
	return conn, err //nolint:wrapcheck // the client shows it as it is
}

// settle ends the first connect, so the context no longer applies.
func (d *dialer) settle() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ctx = nil
	return d.failures
}
