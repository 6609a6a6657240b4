package natsservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/presence"
	"github.com/turnlog/turnlog/tool"
)

// Config configures a [Manager].
type Config struct {
	Conn     *nats.Conn
	Services []string      // names
	Reserved string        // the namespace of the deployment, whose subjects no service may use
	Timeout  time.Duration // timeout of a call whose endpoint has none; 0: 2 min
	Logger   *zap.Logger   // nil: silent

	every time.Duration // how often to ask for a service; 0: 1 s
	lost  time.Duration // how long no instance may answer before a call is lost; 0: 10 s
}

const (
	maxName        = 32
	defaultTimeout = 2 * time.Minute
)

// Check returns an error for a name that no service can have here.
func (c Config) Check() error {
	for i, name := range c.Services {
		switch {
		case !content.IsToken(name) || len(name) > maxName || strings.HasPrefix(name, "_"):
			return fmt.Errorf("service %q: use a name of 1 to %d letters, digits, '-' or '_', and no '_' in front", name, maxName)
		case name == c.Reserved:
			return fmt.Errorf("service %s: its subjects belong to the deployment", name)
		case slices.Contains(c.Services[:i], name):
			return fmt.Errorf("two services have the name %s", name)
		}
	}
	return nil
}

// Manager follows services and offers their tools. It owns a goroutine for each, and uses the connection of its owner. Its
// methods are safe for concurrent use.
type Manager struct {
	services []*service
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// Open starts to follow the services and returns at once. It follows them until Close, even if ctx ends, since draining
// calls need them. Open returns an error for an invalid Config, never because of a service.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("open NATS services: %w", err)
	}
	if cfg.Conn == nil {
		return nil, errors.New("open NATS services: no connection")
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.every, cfg.lost = cmp.Or(cfg.every, time.Second), cmp.Or(cfg.lost, 10*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	m := &Manager{stop: stop}
	for _, name := range cfg.Services {
		s := &service{name: name, all: cfg, log: cfg.Logger.Named("natsservice").With(zap.String("service", name))}
		s.watch = presence.New(presence.Config{Every: cfg.every, First: cfg.every, Most: cfg.every}, s.ask, s.changed)
		m.services = append(m.services, s)
		m.done.Go(func() { s.watch.Run(ctx) })
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

// service is one service. It is a [tool.Source].
type service struct {
	name  string
	all   Config
	log   *zap.Logger
	watch *presence.Watch[offer]
}

// Name returns the name of the source in the journal.
func (s *service) Name() string { return "nats:" + s.name }

// Tools returns the current offer. It never waits.
func (s *service) Tools(context.Context) ([]tool.Tool, error) {
	now, _ := s.watch.Offer() // nothing while it is away
	return now.tools, nil
}

func (s *service) changed(now offer, err error) {
	if err != nil {
		s.log.Warn("NATS service unavailable", zap.Error(err))
		return
	}
	s.log.Info("NATS service available", zap.Int("tools", len(now.tools)))
}
