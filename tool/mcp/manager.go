package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/tool"
)

// Manager connects to servers and keeps what they offer. It owns a goroutine for each
// server, and the programs that it started. Its methods are safe for concurrent use.
type Manager struct {
	links []*link
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// Open begins to connect to the servers and returns at once; see [Manager.Settle]. They
// are held until Close, also beyond the end of ctx: calls that drain need them. It
// returns an error for a Config that cannot work, and never because of a server.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("open MCP servers: %w", err)
	}
	cfg.MaxMessage = cmp.Or(cfg.MaxMessage, 16<<20)
	cfg.CheckEvery = cmp.Or(cfg.CheckEvery, defaultCheckEvery)
	cfg.Backoff.First = cmp.Or(cfg.Backoff.First, 500*time.Millisecond)
	cfg.Backoff.Most = max(cfg.Backoff.First, cmp.Or(cfg.Backoff.Most, 30*time.Second))
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	m := &Manager{stop: stop}
	for _, s := range cfg.Servers {
		l := newLink(cfg, s.withDefaults())
		m.links = append(m.links, l)
		m.done.Go(func() { l.run(ctx) })
	}
	return m, nil
}

// Close disconnects from all servers, ends the programs, and waits until that is done.
// Calls that still run fail.
func (m *Manager) Close() {
	m.stop()
	m.done.Wait()
}

// Sources returns what the servers offer, a source for each, in the order of the
// Config. A source is empty while its server is not connected.
func (m *Manager) Sources() []tool.Source {
	sources := make([]tool.Source, len(m.links))
	for i, l := range m.links {
		sources[i] = source{l}
	}
	return sources
}

// State says how a server stands.
type State string

// The states of servers.
const (
	Connecting   State = "connecting"
	Ready        State = "ready"
	Unavailable  State = "unavailable"  // the last attempt failed, or the connection was lost; another attempt follows
	Disconnected State = "disconnected" // on demand, until Connect
)

// Status is how one server stands.
type Status struct {
	Server string
	State  State
	Err    error             // why it is unavailable
	Auth   *tool.AuthRequest // the authorization that it wants before it can be connected to; nil: none
	Tools  []string          // names on offer, sorted
}

// Status tells how each server stands, in the order of the Config.
func (m *Manager) Status() []Status {
	out := make([]Status, len(m.links))
	for i, l := range m.links {
		out[i] = l.snapshot().status(l.cfg.Name)
	}
	return out
}

// Settle waits until each of the named servers is connected or an attempt to do so has
// failed, and tells how they stand; without names, of all of them. Those that did settle
// before stay as they are. A status has ErrUnknownServer for a name that no server has,
// and the cause of ctx for one that was not awaited.
func (m *Manager) Settle(ctx context.Context, names ...string) []Status {
	if len(names) == 0 {
		for _, l := range m.links {
			names = append(names, l.cfg.Name)
		}
	}
	slices.Sort(names)
	var out []Status
	for _, name := range slices.Compact(names) {
		l, err := m.link(name)
		if err != nil {
			out = append(out, Status{Server: name, State: Unavailable, Err: err})
			continue
		}
		s, err := l.settled(ctx)
		st := s.status(name)
		if err != nil {
			st.Err = err
		}
		out = append(out, st)
	}
	return out
}

// Connect has the server connected to, now rather than when its turn comes, and waits
// for the outcome. A connected one is left as it is.
func (m *Manager) Connect(ctx context.Context, name string) error {
	l, err := m.link(name)
	if err != nil {
		return err
	}
	l.want(true)
	_, err = l.session(ctx, nil)
	return err
}

// Disconnect ends the connection and takes the server's tools off the catalog until
// Connect. That works with a server that is dead, too.
func (m *Manager) Disconnect(ctx context.Context, name string) error {
	l, err := m.link(name)
	if err != nil {
		return err
	}
	l.want(false)
	return l.await(ctx, func(s standing) bool { return s.state == Disconnected })
}

// Refresh asks the server what it offers, whether it has told of a change or not.
func (m *Manager) Refresh(ctx context.Context, name string) error {
	l, err := m.link(name)
	if err != nil {
		return err
	}
	return l.refreshNow(ctx)
}

// ResolveAuth answers what a server asked for by [tool.AuthRequired]: the next call
// uses it, or, if the server could not be connected to without, an attempt is made at
// once. It returns an error if the authorization fails, or if the server refuses it.
func (m *Manager) ResolveAuth(ctx context.Context, name string, r Resolution) error {
	l, err := m.link(name)
	if err != nil {
		return err
	}
	if err := l.door.resolve(ctx, r); err != nil {
		return fmt.Errorf("authorize %s: %w", name, err)
	}
	if r.Cancelled {
		return nil
	}
	if _, err := l.session(ctx, nil); err != nil {
		return fmt.Errorf("authorize %s: %w", name, err)
	}
	return nil
}

func (m *Manager) link(name string) (*link, error) {
	i := slices.IndexFunc(m.links, func(l *link) bool { return l.cfg.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("server %s: %w", name, ErrUnknownServer)
	}
	return m.links[i], nil
}

// source is what one server offers.
type source struct{ l *link }

// Name names the source in the journal.
func (s source) Name() string { return "mcp:" + s.l.cfg.Name }

// Tools lists what is on offer now. It never waits.
func (s source) Tools(context.Context) ([]tool.Tool, error) { return s.l.snapshot().tools, nil }

// errClosed is why a server of a closed manager is not there.
var errClosed = errors.New("the manager is closed")
