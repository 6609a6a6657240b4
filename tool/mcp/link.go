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

// link is one server. Its goroutine connects, holds and reconnects; everything else
// looks at its board.
type link struct {
	board
	cfg  Server
	all  Config
	log  *zap.Logger
	door *door // nil for commands

	news     chan struct{}   // has an element when the server told of a change
	asks     chan chan error // who wants a refresh, and awaits its outcome
	calls    atomic.Int64    // under way
	progress listeners
	telling  sync.Mutex // held while the observer is told, so that events come one by one
	noise    sync.Once  // tells what its program writes beside messages
	legacy   bool       // owned by run: the last attempt ran out of time, so the next one speaks the older handshake
}

func newLink(all Config, s Server) *link {
	l := &link{
		board: newBoard(), cfg: s, all: all, log: all.Logger.Named("mcp").With(zap.String("server", s.Name)),
		news: make(chan struct{}, 1), asks: make(chan chan error),
	}
	l.door = newDoor(s, all)
	return l
}

// run is the life of the server, until ctx ends.
func (l *link) run(ctx context.Context) {
	defer l.close()
	wait := pause{Backoff: l.all.Backoff}
	for ctx.Err() == nil {
		if !l.isWanted() {
			l.leave(Disconnected, nil, 0)
			select {
			case <-l.hurry:
			case <-ctx.Done():
			}
			continue
		}
		l.set(func(s *standing) {
			if s.state == Disconnected {
				s.state, s.err = Connecting, nil
			}
		})
		since := time.Now()
		err := l.attempt(ctx)
		if time.Since(since) > l.all.Backoff.Most+l.cfg.ConnectTimeout {
			wait = pause{Backoff: l.all.Backoff} // it was up for a good while
		}
		if err != nil && ctx.Err() == nil && l.isWanted() {
			wait.sleep(ctx, l.hurry)
		}
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

// close is the end of the link: nobody need wait for it any more.
func (l *link) close() {
	l.set(func(s *standing) {
		*s = standing{state: Disconnected, err: errClosed, outcomes: s.outcomes + 1, closed: true}
	})
	if l.door != nil {
		l.door.close()
	}
}

// join puts what the server offers into the catalog.
func (l *link) join(c *connection) {
	before := l.snapshot().tools
	l.set(func(s *standing) {
		*s = standing{state: Ready, session: c.session, tools: c.tools, outcomes: s.outcomes + 1}
	})
	l.log.Info("MCP server connected", zap.Int("tools", len(c.tools)))
	l.tell(Event{Kind: ServerConnected})
	l.tellTools(before, c.tools)
}

// leave takes it out again. The tools of a server that only wants credentials stay: a
// call is what brings them.
func (l *link) leave(state State, err error, outcomes int) {
	before := l.snapshot()
	_, auth := errors.AsType[*authError](err)
	var tools []tool.Tool
	if auth {
		tools = before.tools
	}
	l.set(func(s *standing) {
		*s = standing{state: state, err: err, tools: tools, outcomes: s.outcomes + outcomes}
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

// hold keeps the connection until it is lost, not wanted any more, or ctx ends.
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
		case asker := <-l.asks:
			err = l.refresh(ctx, c)
			asker <- err
		case <-check.C:
			if l.calls.Load() == 0 {
				err = l.refresh(ctx, c)
			}
		}
		if err != nil {
			l.log.Warn("MCP server not asked what it offers", zap.Error(err))
			l.tell(Event{Kind: RefreshFailed, Err: err})
			if l.isLoss(err) {
				return err
			}
		}
	}
}

// isLoss reports whether an error of a refresh means that the server is not there. One
// that answers is; and a server may do one thing at a time, so that it does not answer
// beside a call says nothing.
func (l *link) isLoss(err error) bool {
	_, heard := answered(err)
	return !heard && (l.calls.Load() == 0 || !errors.Is(err, context.DeadlineExceeded))
}

// refresh asks for what is on offer and shows it.
func (l *link) refresh(ctx context.Context, c *connection) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.ConnectTimeout)
	defer cancel()
	tools, err := l.discover(ctx, c.session)
	if err != nil {
		return fmt.Errorf("refresh: %w", err)
	}
	before := l.snapshot().tools
	l.set(func(s *standing) { s.tools = tools })
	l.tellTools(before, tools)
	return nil
}

// refreshNow has the link's goroutine refresh.
func (l *link) refreshNow(ctx context.Context) error {
	answer := make(chan error, 1)
	for {
		s, changed := l.look()
		if s.state != Ready {
			if s.err != nil {
				return fmt.Errorf("server %s: %w", l.cfg.Name, s.err)
			}
			return fmt.Errorf("server %s: it is %s", l.cfg.Name, s.state)
		}
		select {
		case l.asks <- answer:
			return <-answer // refresh is bounded
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// changedOffer notes that the server told of a change.
func (l *link) changedOffer() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// pause is the time between attempts.
type pause struct {
	Backoff
	next time.Duration
}

// sleep waits, longer each time, until ctx ends, or somebody is in a hurry.
func (p *pause) sleep(ctx context.Context, hurry <-chan struct{}) {
	p.next = min(max(p.First, 2*p.next), p.Most)
	timer := time.NewTimer(p.next/2 + rand.N(p.next/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry:
	case <-ctx.Done():
	}
}

// over runs do with the connection, which it waits for; see session. A server that has
// forgotten the connection has not begun with what was asked over it, so it is asked
// again over a new one; so is one whose connection was lost, if that does no harm.
func (l *link) over(ctx context.Context, effects content.Effects, do func(*sdk.ClientSession) error) error {
	l.calls.Add(1)
	defer l.calls.Add(-1)
	s, err := l.session(ctx, nil)
	if err != nil {
		return unavailable(l.cfg.Name, err)
	}
	err = do(s)
	if !errors.Is(err, sdk.ErrSessionMissing) && (!errors.Is(err, sdk.ErrConnectionClosed) || !effects.Retryable()) {
		return err
	}
	if s, err = l.session(ctx, s); err != nil {
		return unavailable(l.cfg.Name, err)
	}
	return do(s)
}
