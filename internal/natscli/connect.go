package natscli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

const (
	// One server gets this long to take the connection, and again to greet.
	dialTimeout = 5 * time.Second

	// A run token lapses after 12 s: a dead connection must be noticed, and
	// replaced, in less.
	pingInterval  = 4 * time.Second
	reconnectWait = 250 * time.Millisecond
)

// Connect opens a connection that shows up as name on the server, and tells log
// what becomes of it. Once established it is kept up for ever: it tries again
// without end when it is cut off, and refuses to publish meanwhile, since a late
// append is worse than a failed one. ctx bounds the first connect only; when it
// ends first, its cause is returned. [ErrNoServer] tells that nobody was there.
func (f *Flags) Connect(ctx context.Context, name string, log *zap.Logger) (*nats.Conn, error) {
	s, err := f.settings()
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	servers, err := s.servers()
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	opts, err := s.options()
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	d := newDialer(ctx, f.Dial)
	opts = append(opts, nats.SetCustomDialer(d), nats.Name(name))
	opts = append(opts, lasting()...)
	opts = append(opts, handlers(log)...)
	nc, err := nats.Connect(strings.Join(servers, ","), opts...)
	failures := d.settle() //nolint:contextcheck // later connections are made when ctx has long ended
	if ctx.Err() != nil {
		nc.Close() // settle may have come too late to keep it
		return nil, fmt.Errorf("connect to NATS at %s: %w", redactAll(servers), context.Cause(ctx))
	}
	if err != nil {
		return nil, explain(err, failures, servers, s)
	}
	return nc, nil
}

// lasting returns the options for a connection that programs rely on for days.
func lasting() []nats.Option {
	return []nats.Option{
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
	}
}

// handlers tell the log what happens to the connection while nobody waits for it.
func handlers(log *zap.Logger) []nats.Option {
	log = log.Named("nats")
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: closed by the program
				log.Warn("connection lost", zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("connection restored", zap.String("server", nc.ConnectedUrlRedacted()))
		}),
		nats.ClosedHandler(func(nc *nats.Conn) {
			if err := nc.LastError(); err != nil && !errors.Is(err, nats.ErrPermissionViolation) { // that was told, and closes nothing
				log.Error("connection closed for good", zap.Error(err))
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("connection reported an error", zap.String("subject", subject), zap.Error(err))
		}),
	}
}

// dialer dials for the client: the first connection under the caller's context,
// later ones, which come long after that has ended, without it. It remembers why
// it failed, which the client does not.
type dialer struct {
	way func(ctx context.Context, network, address string) (net.Conn, error)

	mu       sync.Mutex
	dial     func(network, address string) (net.Conn, error)
	undo     []func() bool // stop watching the context
	failures []*failure
}

// failure is an address that did not take a connection, and why.
type failure struct {
	address string
	err     error
}

func (f *failure) Error() string { return "dial " + f.address + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// newDialer dials by another way than TCP if via is not nil; that one has no context.
func newDialer(ctx context.Context, via func(network, address string) (net.Conn, error)) *dialer {
	nd := net.Dialer{Timeout: dialTimeout}
	d := &dialer{way: nd.DialContext}
	if via != nil {
		d.way = func(_ context.Context, network, address string) (net.Conn, error) { return via(network, address) }
	}
	d.dial = func(network, address string) (net.Conn, error) {
		conn, err := d.way(ctx, network, address)
		if err != nil {
			fail := &failure{address, err}
			d.failures = append(d.failures, fail)
			return nil, fail
		}
		// The greeting is read without a context; closing ends that wait.
		d.undo = append(d.undo, context.AfterFunc(ctx, func() { _ = conn.Close() }))
		return conn, nil
	}
	return d
}

// Dial implements the client's dialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dial(network, address)
}

// settle ends the first connect: the context counts no more.
func (d *dialer) settle() []*failure {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.undo {
		stop()
	}
	d.dial = func(network, address string) (net.Conn, error) {
		return d.way(context.Background(), network, address)
	}
	return d.failures
}
