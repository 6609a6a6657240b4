package mcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// link is one server. Its goroutine connects, holds the connection and reconnects; all
// other code uses its snapshot.
type link struct {
	cfg  Server
	all  Config
	log  *zap.Logger
	auth *authTransport // nil for commands

	hurry    chan struct{} // has an element if the link should not wait
	news     chan struct{} // has an element when the server announced a change
	calls    atomic.Int64  // in flight
	progress listeners
	noise    sync.Once // logs the first line that is not a message or cannot be handled
	legacy   bool      // owned by run: the last attempt timed out, so the next one uses the older handshake

	mu      sync.Mutex
	now     snapshot
	changed chan struct{} // closed and replaced on each change
}

func newLink(all Config, s Server) *link {
	return &link{
		cfg: s, all: all, log: all.Logger.Named("mcp").With(zap.String("server", s.Name)), auth: newAuthTransport(s, all),
		hurry: make(chan struct{}, 1), news: make(chan struct{}, 1),
		now: snapshot{state: Connecting}, changed: make(chan struct{}),
	}
}

// signal puts an element into a channel that has room for one, unless it has one already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run connects, again and again, until ctx ends.
func (l *link) run(ctx context.Context) {
	defer l.close()
	var wait time.Duration
	for ctx.Err() == nil {
		l.update(func(s *snapshot) { s.begun++ })
		since := time.Now()
		err := l.attempt(ctx)
		if time.Since(since) > l.all.Backoff.Most+l.cfg.ConnectTimeout {
			wait = 0 // it was up for a while
		}
		if err != nil {
			wait = min(max(l.all.Backoff.First, 2*wait), l.all.Backoff.Most)
			timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
			l.pause(ctx, timer.C)
			timer.Stop()
		}
	}
}

// pause waits until the time is over, the link should hurry, or ctx ends.
func (l *link) pause(ctx context.Context, over <-chan time.Time) {
	select {
	case <-over:
	case <-l.hurry:
	case <-ctx.Done():
	}
}

// attempt connects and holds the connection as long as it lasts. It returns an error
// unless ctx has ended.
func (l *link) attempt(ctx context.Context) error {
	c, err := l.connect(ctx)
	if err == nil {
		defer c.close()
		l.join(c)
		err = l.hold(ctx, c)
	}
	if ctx.Err() != nil {
		return nil
	}
	l.leave(err)
	return err
}

func (l *link) close() {
	l.update(func(s *snapshot) {
		*s = snapshot{state: Unavailable, err: errClosed, closed: true}
	})
	if l.auth != nil {
		l.auth.base.CloseIdleConnections()
	}
}

// join adds what the server offers to the catalog.
func (l *link) join(c *connection) {
	l.update(func(s *snapshot) {
		s.state, s.err, s.conn, s.tools, s.ended = Ready, nil, c, c.tools, s.begun
	})
	l.log.Info("MCP server connected", zap.Int("tools", len(c.tools)))
}

// leave removes it from the catalog. The tools of a server that only lacks credentials stay, since a
// call must ask for them.
func (l *link) leave(err error) {
	before := l.current()
	var tools []tool.Tool
	if _, auth := errors.AsType[*authError](err); auth {
		tools = before.tools
	}
	l.update(func(s *snapshot) {
		s.state, s.err, s.conn, s.tools, s.ended = Unavailable, err, nil, tools, s.begun
	})
	if before.err == nil || before.err.Error() != err.Error() {
		l.log.Warn("MCP server unavailable", zap.Error(err))
	}
}

// hold keeps the connection until it is lost or ctx ends, and returns why.
func (l *link) hold(ctx context.Context, c *connection) error {
	check := time.NewTicker(l.all.checkEvery)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.gone:
			return c.whyGone()
		case <-l.hurry: // it is connected already
		case <-l.news:
			l.refresh(ctx, c)
		case <-check.C:
			if l.calls.Load() == 0 {
				l.refresh(ctx, c)
			}
		}
	}
}

// refresh lists what the server offers and publishes it. If it fails because the server is gone, the
// connection is lost. An error from the server does not mean that. Neither does a timeout during a
// call: the server may handle only one request at a time.
func (l *link) refresh(ctx context.Context, c *connection) {
	limited, cancel := context.WithTimeout(ctx, l.cfg.ConnectTimeout)
	defer cancel()
	tools, err := l.discover(limited, c.session)
	if err != nil {
		err = fmt.Errorf("refresh: %w", err)
		l.log.Warn("MCP server not refreshed", zap.Error(err))
		_, answered := serverError(err)
		if !answered && ctx.Err() == nil && (l.calls.Load() == 0 || !errors.Is(err, context.DeadlineExceeded)) {
			c.lose(err)
		}
		return
	}
	l.update(func(s *snapshot) { s.tools = tools })
}

// do runs f with a connection, which it waits for; see connected. It runs f again over a
// new connection if the server forgot the session, so it did not start f, or if the
// connection was lost and repeating f does no harm.
func (l *link) do(ctx context.Context, effects content.Effects, f func(*sdk.ClientSession) error) error {
	l.calls.Add(1)
	defer l.calls.Add(-1)
	c, err := l.connected(ctx, nil, false)
	if err != nil {
		return unavailable(l.cfg.Name, err)
	}
	err = f(c.session)
	if !errors.Is(err, sdk.ErrSessionMissing) && (!errors.Is(err, sdk.ErrConnectionClosed) || !effects.Retryable()) {
		return err
	}
	if c, err = l.connected(ctx, c, false); err != nil {
		return unavailable(l.cfg.Name, err)
	}
	return f(c.session)
}
