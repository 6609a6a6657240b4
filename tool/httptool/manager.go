package httptool

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/egress"
	"github.com/turnlog/turnlog/internal/presence"
	"github.com/turnlog/turnlog/tool"
)

// Manager follows services and offers their tools. It owns a goroutine for each. Its methods are safe for concurrent use.
type Manager struct {
	services []*service
	stop     context.CancelFunc
	done     sync.WaitGroup
}

const (
	defaultTimeout = 2 * time.Minute
	dialTimeout    = 5 * time.Second
)

// Open starts to follow the services and returns at once. It follows them until Close, even if ctx ends, since draining
// calls need them. Open returns an error for an invalid Config, never because of a service.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("open HTTP tools: %w", err)
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.every, cfg.patience = cmp.Or(cfg.every, 3*time.Second), cmp.Or(cfg.patience, 10*time.Second)
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	m := &Manager{stop: stop}
	for _, s := range cfg.Services {
		x := newService(cfg, s)
		m.services = append(m.services, x)
		m.done.Go(func() { x.watch.Run(ctx) })
	}
	return m, nil
}

// Close stops following the services. Calls in flight continue.
func (m *Manager) Close() {
	m.stop()
	m.done.Wait()
}

// Sources returns a source of tools for each service, in the order of the Config. It is empty while its service does not
// answer.
func (m *Manager) Sources() []tool.Source {
	out := make([]tool.Source, len(m.services))
	for i, s := range m.services {
		out[i] = s
	}
	return out
}

// Missing waits until each service was asked once, and returns an error for each that offers nothing.
func (m *Manager) Missing(ctx context.Context) []error {
	var out []error
	for _, s := range m.services {
		if err := s.watch.Settled(ctx); err != nil {
			out = append(out, fmt.Errorf("HTTP tool %s is not available: %w", s.cfg.Name, err))
		}
	}
	return out
}

// service is one service. It is a [tool.Source].
type service struct {
	cfg   Service
	all   Config
	at    *url.URL
	log   *zap.Logger
	http  *http.Client
	watch *presence.Watch[offer]
	calls atomic.Int64 // in flight
}

func newService(all Config, cfg Service) *service {
	at, _ := url.Parse(cfg.URL) // Check has parsed it
	s := &service{cfg: cfg, all: all, at: at, log: all.Logger.Named("http").With(zap.String("tool", cfg.Name))}
	s.http = &http.Client{Transport: transport(slices.Concat(all.Private, named(at))), CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	s.watch = presence.New(presence.Config{Every: all.every, First: 500 * time.Millisecond, Most: 30 * time.Second}, s.describe, s.changed)
	return s
}

// transport returns a transport that dials only allowed addresses. Each request has its own connection. Closing it cancels
// the call. And no request reuses a connection that the service is just closing, which would leave unknown whether the
// service received the request.
func transport(private []netip.Prefix) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return egress.Check(address, private)
	}}
	return &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: 10 * time.Second}
}

// Name returns the name of the source in the journal.
func (s *service) Name() string { return "http:" + s.cfg.Name }

// Tools returns the current offer. It never waits.
func (s *service) Tools(context.Context) ([]tool.Tool, error) {
	now, _ := s.watch.Offer() // nothing while it is away
	return now.tools, nil
}

func (s *service) changed(now offer, err error) {
	if err != nil {
		s.log.Warn("HTTP tool unavailable", zap.Error(err))
		return
	}
	s.log.Info("HTTP tool available", zap.Int("tools", len(now.tools)))
}
