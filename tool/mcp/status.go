package mcp

import (
	"context"
	"errors"

	"github.com/turnlog/turnlog/tool"
)

// State is the state of a server.
type State string

// The states of servers.
const (
	Connecting  State = "connecting"
	Ready       State = "ready"
	Unavailable State = "unavailable" // the last attempt failed, or the connection was lost; a retry follows
)

// Status describes one server.
type Status struct {
	Server string
	State  State
	Err    error             // why it is unavailable
	Auth   *tool.AuthRequest // the authorization it needs before a connection; nil: none
	Tools  []string          // names of its tools on offer, sorted
}

var errClosed = errors.New("the manager is closed")

// snapshot is the state of a link at one moment.
type snapshot struct {
	state  State
	err    error
	conn   *connection // if Ready
	tools  []tool.Tool // on offer, sorted
	begun  int         // attempts to connect
	ended  int         // the last attempt whose outcome is known
	closed bool        // the manager is
}

func (s snapshot) status(name string) Status {
	st := Status{Server: name, State: s.state, Err: s.err}
	if e, ok := errors.AsType[*authError](s.err); ok {
		request := e.request(name, operation{kind: opConnect, method: methodConnect})
		st.Auth = &request
	}
	for _, t := range s.tools {
		st.Tools = append(st.Tools, t.Spec().Name)
	}
	return st
}

func (l *link) current() snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *link) update(edit func(*snapshot)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	edit(&l.now)
	close(l.changed)
	l.changed = make(chan struct{})
}

// await waits until done returns true, and returns its error.
func (l *link) await(ctx context.Context, done func(snapshot) (bool, error)) (snapshot, error) {
	for {
		l.mu.Lock()
		s, changed := l.now, l.changed
		l.mu.Unlock()
		switch ok, err := done(s); {
		case ok || err != nil:
			return s, err
		case s.closed:
			return s, errClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return l.current(), context.Cause(ctx)
		}
	}
}

// settled waits until the first attempt has ended.
func (l *link) settled(ctx context.Context) (snapshot, error) {
	return l.await(ctx, func(s snapshot) (bool, error) { return s.state != Connecting || s.ended > 0, nil })
}

// connected returns a connection other than lost: at once if there is one, otherwise after one attempt
// to connect, which it starts early. With fresh, an attempt that has already begun does not count: it
// does not use the new credentials.
func (l *link) connected(ctx context.Context, lost *connection, fresh bool) (*connection, error) {
	now, hurried := l.current(), false
	last := now.ended
	if fresh {
		last = now.begun
	}
	s, err := l.await(ctx, func(s snapshot) (bool, error) {
		switch {
		case s.state == Ready && s.conn != lost:
			return true, nil
		case s.state == Unavailable && s.ended > last:
			return false, s.err
		case s.state == Unavailable && !hurried:
			hurried = true
			signal(l.hurry)
		}
		return false, nil
	})
	return s.conn, err
}
