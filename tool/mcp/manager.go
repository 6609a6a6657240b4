package mcp

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/tool"
)

// Manager connects to servers and publishes what they offer. It owns a goroutine for each
// server and the programs that it starts. Its methods are safe for concurrent use.
type Manager struct {
	links []*link
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// Open starts to connect to the servers and returns at once; see [Manager.Settle]. The
// connections last until Close, even if ctx ends, since draining calls need them. It
// returns an error for an invalid Config, never because of a server.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("open MCP servers: %w", err)
	}
	cfg.maxMessage = cmp.Or(cfg.maxMessage, 16<<20)
	cfg.checkEvery = cmp.Or(cfg.checkEvery, time.Minute)
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

// Close disconnects from all servers, ends the programs, and waits for that. Calls in
// flight fail.
func (m *Manager) Close() {
	m.stop()
	m.done.Wait()
}

// Sources returns a source of tools for each server, in the order of the Config. It is
// empty while its server is not connected.
func (m *Manager) Sources() []tool.Source {
	sources := make([]tool.Source, len(m.links))
	for i, l := range m.links {
		sources[i] = source{l}
	}
	return sources
}

// Status returns the status of each server, in the order of the Config.
func (m *Manager) Status() []Status {
	out := make([]Status, len(m.links))
	for i, l := range m.links {
		out[i] = l.current().status(l.cfg.Name)
	}
	return out
}

// Settle waits until each server has connected or failed to connect once, and returns
// their status, in the order of the Config. The error of a status is the cause of ctx if
// that ended first.
func (m *Manager) Settle(ctx context.Context) []Status {
	out := make([]Status, len(m.links))
	for i, l := range m.links {
		s, err := l.settled(ctx)
		out[i] = s.status(l.cfg.Name)
		out[i].Err = cmp.Or(err, out[i].Err)
	}
	return out
}

// ResolveAuth answers a server's [tool.AuthRequired]. The next call uses the resolution; if
// the server needs it to connect, it tries to connect at once. It returns an error if the
// authorization fails or the server refuses it.
func (m *Manager) ResolveAuth(ctx context.Context, name string, r Resolution) error {
	l, err := m.link(name)
	if err != nil {
		return err
	}
	if err := l.auth.resolve(ctx, r); err != nil {
		return fmt.Errorf("authorize %s: %w", name, err)
	}
	if r.Cancelled {
		return nil
	}
	if _, err := l.connected(ctx, nil, true); err != nil {
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

// Name returns the name of the source in the journal.
func (s source) Name() string { return "mcp:" + s.l.cfg.Name }

// Tools returns the current offer. It never waits.
func (s source) Tools(context.Context) ([]tool.Tool, error) { return s.l.current().tools, nil }
