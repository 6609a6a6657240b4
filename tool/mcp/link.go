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
// other code uses its monitor.
type link struct {
	monitor
	cfg  Server
	all  Config
	log  *zap.Logger
	auth *authTransport // nil for commands

	news     chan struct{}   // has an element when the server announced a change
	asks     chan chan error // requests to refresh; each gets the outcome
	calls    atomic.Int64    // in flight
	progress listeners
	telling  sync.Mutex // held while the observer runs, so that events are in order
	noise    sync.Once  // logs lines that are not messages
	legacy   bool       // owned by run: the last attempt timed out, so the next one uses the older handshake
}

func newLink(all Config, s Server) *link {
	return &link{
		monitor: newMonitor(), cfg: s, all: all, log: all.Logger.Named("mcp").With(zap.String("server", s.Name)),
		auth: newAuthTransport(s, all), news: make(chan struct{}, 1), asks: make(chan chan error),
	}
}

// run connects, again and again, until ctx ends.
func (l *link) run(ctx context.Context) {
	defer l.close()
	var wait time.Duration
	for ctx.Err() == nil {
		if !l.isWanted() {
			l.leave(Disconnected, nil, 0)
			select {
			case <-l.hurry:
			case <-ctx.Done():
			}
			continue
		}
		l.update(func(s *snapshot) {
			if s.state == Disconnected {
				s.state, s.err = Connecting, nil
			}
		})
		since := time.Now()
		err := l.attempt(ctx)
		if time.Since(since) > l.all.Backoff.Most+l.cfg.ConnectTimeout {
			wait = 0 // it was up for a while
		}
		if err != nil && ctx.Err() == nil && l.isWanted() {
			wait = min(max(l.all.Backoff.First, 2*wait), l.all.Backoff.Most)
			l.pause(ctx, wait/2+rand.N(wait/2+1))
		}
	}
}

// pause waits until the time is over, the link should hurry, or ctx ends.
func (l *link) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.hurry:
	case <-ctx.Done():
	}
}

// attempt connects and holds the connection as long as it lasts.
func (l *link) attempt(ctx context.Context) error {
	c, err := l.connect(ctx)
	outcomes := 1
	if err == nil {
		defer c.close()
		l.join(c)
		err, outcomes = l.hold(ctx, c), 0
	}
	if err != nil && ctx.Err() == nil && l.isWanted() {
		l.leave(Unavailable, err, outcomes)
	}
	return err
}

func (l *link) close() {
	l.update(func(s *snapshot) {
		*s = snapshot{state: Disconnected, err: errClosed, outcomes: s.outcomes + 1, closed: true}
	})
	if l.auth != nil {
		l.auth.closeIdle()
	}
}

// join adds what the server offers to the catalog.
func (l *link) join(c *connection) {
	before := l.current().tools
	l.update(func(s *snapshot) {
		*s = snapshot{state: Ready, session: c.session, tools: c.tools, outcomes: s.outcomes + 1}
	})
	l.log.Info("MCP server connected", zap.Int("tools", len(c.tools)))
	l.tell(Event{Kind: ServerConnected})
	l.tellTools(before, c.tools)
}

// leave removes it from the catalog. The tools of a server that only lacks credentials
// stay, since a call is what gets them.
func (l *link) leave(state State, err error, outcomes int) {
	before := l.current()
	_, auth := errors.AsType[*authError](err)
	var tools []tool.Tool
	if auth {
		tools = before.tools
	}
	l.update(func(s *snapshot) {
		*s = snapshot{state: state, err: err, tools: tools, outcomes: s.outcomes + outcomes}
	})
	kind := ServerFailed
	switch {
	case auth:
		kind = AuthNeeded
	case before.session != nil || state == Disconnected:
		kind = ServerDisconnected
	}
	if err != nil && (before.err == nil || before.err.Error() != err.Error()) {
		l.log.Warn("MCP server unavailable", zap.Error(err))
	}
	l.tell(Event{Kind: kind, Err: err})
	l.tellTools(before.tools, tools)
}

// hold keeps the connection until it is lost or no longer wanted, or ctx ends.
func (l *link) hold(ctx context.Context, c *connection) error {
	check := time.NewTicker(l.all.CheckEvery)
	defer check.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.gone:
			return c.whyGone()
		case <-l.hurry:
			if !l.isWanted() {
				return nil
			}
		case <-l.news:
			err = l.refresh(ctx, c)
		case answer := <-l.asks:
			err = l.refresh(ctx, c)
			answer <- err
		case <-check.C:
			if l.calls.Load() == 0 {
				err = l.refresh(ctx, c)
			}
		}
		if err != nil {
			l.log.Warn("MCP server not refreshed", zap.Error(err))
			l.tell(Event{Kind: RefreshFailed, Err: err})
			if l.isLoss(err) {
				return err
			}
		}
	}
}

// isLoss reports whether a failed refresh means that the server is gone. An error from
// the server does not, and neither does a timeout during a call: it may do one thing at
// a time.
func (l *link) isLoss(err error) bool {
	_, answered := serverError(err)
	return !answered && (l.calls.Load() == 0 || !errors.Is(err, context.DeadlineExceeded))
}

// refresh asks what is on offer and publishes it.
func (l *link) refresh(ctx context.Context, c *connection) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.ConnectTimeout)
	defer cancel()
	tools, err := l.discover(ctx, c.session)
	if err != nil {
		return fmt.Errorf("refresh: %w", err)
	}
	before := l.current().tools
	l.update(func(s *snapshot) { s.tools = tools })
	l.tellTools(before, tools)
	return nil
}

// requestRefresh has the link's goroutine refresh.
func (l *link) requestRefresh(ctx context.Context) error {
	answer := make(chan error, 1)
	for {
		s, changed := l.watch()
		if s.state != Ready {
			if s.err != nil {
				return fmt.Errorf("server %s: %w", l.cfg.Name, s.err)
			}
			return fmt.Errorf("server %s: it is %s", l.cfg.Name, s.state)
		}
		select {
		case l.asks <- answer:
			return <-answer // refresh has a time limit
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// offerChanged records that the server announced a change.
func (l *link) offerChanged() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// do runs f with a connection, which it waits for; see session. It runs f again over a
// new connection if the server forgot the session, so it did not start f, or if the
// connection was lost and repeating f does no harm.
func (l *link) do(ctx context.Context, effects content.Effects, f func(*sdk.ClientSession) error) error {
	l.calls.Add(1)
	defer l.calls.Add(-1)
	s, err := l.session(ctx, nil)
	if err != nil {
		return unavailable(l.cfg.Name, err)
	}
	err = f(s)
	if !errors.Is(err, sdk.ErrSessionMissing) && (!errors.Is(err, sdk.ErrConnectionClosed) || !effects.Retryable()) {
		return err
	}
	if s, err = l.session(ctx, s); err != nil {
		return unavailable(l.cfg.Name, err)
	}
	return f(s)
}
