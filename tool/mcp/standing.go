package mcp

import (
	"context"
	"errors"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/tool"
)

// standing is how a server stands at one moment.
type standing struct {
	state    State
	err      error
	session  *sdk.ClientSession // Ready
	tools    []tool.Tool        // on offer, sorted
	outcomes int                // how many attempts have ended
	closed   bool               // the manager is
}

func (s standing) status(name string) Status {
	st := Status{Server: name, State: s.state, Err: s.err}
	if e, ok := errors.AsType[*authError](s.err); ok {
		request := e.request(name, opConnect, "")
		st.Auth = &request
	}
	for _, t := range s.tools {
		st.Tools = append(st.Tools, t.Spec().Name)
	}
	return st
}

// board shows how a server stands to whoever waits for it. Its link writes it.
type board struct {
	mu      sync.Mutex
	now     standing
	wanted  bool          // the server is to be connected to
	changed chan struct{} // closed and replaced when something changes
	hurry   chan struct{} // has an element when the link need not wait
}

func newBoard() board {
	return board{now: standing{state: Connecting}, wanted: true, changed: make(chan struct{}), hurry: make(chan struct{}, 1)}
}

func (b *board) snapshot() standing {
	s, _ := b.look()
	return s
}

func (b *board) look() (s standing, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.changed
}

// set edits the standing.
func (b *board) set(edit func(*standing)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	edit(&b.now)
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *board) want(wanted bool) {
	b.mu.Lock()
	changed := b.wanted != wanted
	b.wanted = wanted
	b.mu.Unlock()
	if changed {
		b.rush()
	}
}

func (b *board) isWanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wanted
}

// rush ends the link's wait, or the next one.
func (b *board) rush() {
	select {
	case b.hurry <- struct{}{}:
	default:
	}
}

// await waits until the standing is good.
func (b *board) await(ctx context.Context, good func(standing) bool) error {
	for {
		s, changed := b.look()
		switch {
		case good(s):
			return nil
		case s.closed:
			return errClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settled waits for the outcome of the first attempt, if there was none yet.
func (b *board) settled(ctx context.Context) (standing, error) {
	err := b.await(ctx, func(s standing) bool { return s.state != Connecting || s.outcomes > 0 })
	return b.snapshot(), err
}

// session returns the connection: at once if there is one beside lost, else after one
// attempt to connect, which it hurries.
func (b *board) session(ctx context.Context, lost *sdk.ClientSession) (*sdk.ClientSession, error) {
	first := b.snapshot().outcomes
	hurried := false
	for {
		s, changed := b.look()
		switch {
		case s.closed:
			return nil, errClosed
		case s.state == Ready && s.session != lost:
			return s.session, nil
		case s.state == Disconnected && !b.isWanted():
			return nil, errDisconnected
		case s.state == Unavailable && s.outcomes > first:
			return nil, s.err
		case s.state == Unavailable && !hurried:
			hurried = true
			b.rush()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

var errDisconnected = errors.New("it is disconnected")
