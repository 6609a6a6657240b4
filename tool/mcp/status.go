package mcp

import (
	"context"
	"errors"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/tool"
)

// State is the state of a server.
type State string

// The states of servers.
const (
	Connecting   State = "connecting"
	Ready        State = "ready"
	Unavailable  State = "unavailable"  // the last attempt failed, or the connection was lost; a retry follows
	Disconnected State = "disconnected" // by Disconnect, until Connect
)

// Status describes one server.
type Status struct {
	Server string
	State  State
	Err    error             // why it is unavailable
	Auth   *tool.AuthRequest // the authorization it needs before a connection; nil: none
	Tools  []string          // names of its tools on offer, sorted
}

var (
	errClosed       = errors.New("the manager is closed")
	errDisconnected = errors.New("it is disconnected")
)

// snapshot is what a link knows at one moment.
type snapshot struct {
	state    State
	err      error
	session  *sdk.ClientSession // if Ready
	tools    []tool.Tool        // on offer, sorted
	outcomes int                // attempts that have ended
	closed   bool               // the manager is
}

func (s snapshot) status(name string) Status {
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

// monitor publishes a link's snapshot to callers that wait for it.
type monitor struct {
	mu      sync.Mutex
	now     snapshot
	wanted  bool          // the server should be connected
	changed chan struct{} // closed and replaced on each change
	hurry   chan struct{} // has an element if the link should not wait
}

func newMonitor() monitor {
	return monitor{now: snapshot{state: Connecting}, wanted: true, changed: make(chan struct{}), hurry: make(chan struct{}, 1)}
}

func (m *monitor) current() snapshot {
	s, _ := m.watch()
	return s
}

func (m *monitor) watch() (s snapshot, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now, m.changed
}

func (m *monitor) update(edit func(*snapshot)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	edit(&m.now)
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *monitor) want(wanted bool) {
	m.mu.Lock()
	changed := m.wanted != wanted
	m.wanted = wanted
	m.mu.Unlock()
	if changed {
		m.hurryUp()
	}
}

func (m *monitor) isWanted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wanted
}

// hurryUp ends the link's current wait, or the next one.
func (m *monitor) hurryUp() {
	select {
	case m.hurry <- struct{}{}:
	default:
	}
}

// await waits until the snapshot is good.
func (m *monitor) await(ctx context.Context, good func(snapshot) bool) error {
	for {
		s, changed := m.watch()
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

// settled waits until the first attempt has ended.
func (m *monitor) settled(ctx context.Context) (snapshot, error) {
	err := m.await(ctx, func(s snapshot) bool { return s.state != Connecting || s.outcomes > 0 })
	return m.current(), err
}

// session returns a connection other than lost: at once if there is one, else after one
// attempt to connect, which it starts early.
func (m *monitor) session(ctx context.Context, lost *sdk.ClientSession) (*sdk.ClientSession, error) {
	first := m.current().outcomes
	hurried := false
	for {
		s, changed := m.watch()
		switch {
		case s.closed:
			return nil, errClosed
		case s.state == Ready && s.session != lost:
			return s.session, nil
		case s.state == Disconnected && !m.isWanted():
			return nil, errDisconnected
		case s.state == Unavailable && s.outcomes > first:
			return nil, s.err
		case s.state == Unavailable && !hurried:
			hurried = true
			m.hurryUp()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
