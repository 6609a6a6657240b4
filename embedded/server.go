package embedded

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

const (
	// Streams in a store belong to the server's name, so it must be the same on
	// every start.
	serverName = "turnlog"

	// The server's own default of 1,000 per stream counts every observer and
	// every watcher of a bucket.
	maxConsumersPerStream = 10_000

	// Starting takes milliseconds; this is for a machine that does not answer.
	startTimeout = 10 * time.Second
)

// Server is a NATS server in this process. Its methods may be called from any
// goroutine.
type Server struct {
	nats  *server.Server
	cfg   config
	store *store

	closing sync.Once
	closed  chan struct{} // closed when Close has begun

	mu    sync.Mutex
	conns []*nats.Conn // made by Connect, not known to be closed
}

// Start starts a server and returns it when it is ready for connections. ctx
// bounds the start only; the server runs until Close. The error says what was
// wrong and what to do about it; [ErrStoreInUse] is one that can be told apart.
func Start(ctx context.Context, opts ...Option) (*Server, error) {
	cfg, err := configure(opts)
	if err != nil {
		return nil, fmt.Errorf("start embedded server: %w", err)
	}
	s, err := start(ctx, cfg, serverName, nil)
	if err != nil {
		return nil, fmt.Errorf("start embedded server: %w", err)
	}
	return s, nil
}

// start starts one server; routes is nil unless it is part of a cluster.
func start(ctx context.Context, cfg config, name string, routes *routing) (*Server, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if cfg.listen != nil {
		if err := probe(ctx, *cfg.listen); err != nil {
			return nil, err
		}
	}
	st, err := openStore(cfg.store)
	if err != nil {
		return nil, err
	}
	ns, err := launch(ctx, cfg, serverOptions(cfg, name, st.dir, routes))
	if err != nil {
		return nil, errors.Join(err, st.release())
	}
	warnIfOpen(cfg)
	return &Server{nats: ns, cfg: cfg, store: st, closed: make(chan struct{})}, nil
}

// launch starts the server, or cleans up after a failure.
func launch(ctx context.Context, cfg config, o *server.Options) (*server.Server, error) {
	ns, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("configure: %w", err)
	}
	log := newServerLog(cfg.log)
	ns.SetLoggerV2(log, false, false, false)
	ns.Start() // returns when it serves, or after a fatal line
	if log.failure() == "" && ns.ReadyForConnections(patience(ctx)) {
		return ns, nil
	}
	ns.Shutdown()
	ns.WaitForShutdown()
	if line := log.failure(); line != "" {
		return nil, fmt.Errorf("nats-server with store %s: %s", o.StoreDir, line)
	}
	return nil, fmt.Errorf("not ready for connections after %v", patience(ctx))
}

// patience is how long a start may take under ctx.
func patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(startTimeout, time.Until(deadline))
	}
	return startTimeout
}

func serverOptions(cfg config, name, dir string, routes *routing) *server.Options {
	o := &server.Options{}
	if cfg.text != "" {
		_ = o.ProcessConfigString(cfg.text) // WithSettings has tried it
	}
	o.ServerName = name
	o.NoSigs = true // signals belong to the program
	o.NoLog = true  // the logger is set by hand

	o.JetStream = true
	o.DisableJetStreamBanner = true
	o.StoreDir = dir
	o.SyncAlways = cfg.sync
	o.JetStreamMaxMemory = cfg.maxMemory
	o.JetStreamMaxStore = cfg.maxStore
	o.JetStreamLimits = server.JSLimitOpts{DefaultMaxConsumers: maxConsumersPerStream}

	o.DontListen = cfg.listen == nil
	o.MaxPayload = cfg.maxPayload
	o.TLSConfig = cfg.tls
	if cfg.user != "" {
		o.CustomClientAuthentication = oneUser{cfg.user, cfg.pass}
	}
	if cfg.listen != nil {
		o.Host, o.Port = cfg.listen.host, cfg.listen.port
		if o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
	}
	routes.apply(o)
	return o
}

// Connect opens a connection inside the process, without a socket. While it is
// cut off it refuses to publish instead of keeping messages for later, since a
// late append is worse than a failed one; opts may change that and all else. The
// server's Close closes it, if the caller has not.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	base := []nats.Option{nats.InProcessServer(s.nats), nats.Name("turnlog"), nats.ReconnectBufSize(-1)}
	if s.cfg.user != "" {
		base = append(base, nats.UserInfo(s.cfg.user, s.cfg.pass))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped() {
		return nil, errors.New("connect to embedded server: it is closed")
	}
	nc, err := nats.Connect("", append(base, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to embedded server: %w", err)
	}
	s.conns = append(slices.DeleteFunc(s.conns, (*nats.Conn).IsClosed), nc)
	return nc, nil
}

// ClientURL returns the URL for connections over TCP, or "" if there is no
// listener. It carries no credentials.
func (s *Server) ClientURL() string {
	if s.cfg.listen == nil {
		return ""
	}
	u, err := url.Parse(s.nats.ClientURL())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port()) // every address includes this one
	}
	return u.String()
}

// Name returns the server's name, as stream information and cluster placement
// show it.
func (s *Server) Name() string { return s.nats.Name() }

// InMemory reports whether the server was started without a store directory, so
// that nothing outlives it and streams had better be kept in memory too.
func (s *Server) InMemory() bool { return s.cfg.memory }

// Close closes the connections made by Connect, stops the server, waits until it
// is down, and gives the store directory up. Further calls wait for the first
// and do nothing.
func (s *Server) Close() {
	s.closing.Do(func() {
		for _, nc := range s.stop() {
			nc.Close()
		}
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		if err := s.store.release(); err != nil {
			s.cfg.log.Warn("store not released", zap.Error(err))
		}
	})
}

// stop marks the server as closed and returns the connections to close with it.
func (s *Server) stop() []*nats.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.closed)
	conns := s.conns
	s.conns = nil
	return conns
}

func (s *Server) stopped() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// PrepareForSynctest makes a server usable in bubbles of testing/synctest. Call
// it once in TestMain, before m.Run. The server has one clock for the whole
// process, whose goroutine waits on a channel that belongs to no bubble. If the
// first server of the process starts inside a bubble, that goroutine does too,
// the bubble never comes to rest, its time stands still and the test hangs. This
// function starts the clock outside and keeps it for the rest of the process.
//
// One thing it cannot mend: the NATS client keeps used timers in a pool for the
// whole process, and a timer must not leave its bubble. So where tests run in
// bubbles, use the forms that take a context (RequestWithContext,
// NextMsgWithContext, FlushWithContext) instead of Request, NextMsg, Flush and
// FlushTimeout; the JetStream API of the client does so by itself.
func PrepareForSynctest() { ats.Register() }

// oneUser authenticates one name and password. The server has that too, but warns that
// the password it was given is readable, which is for configuration files.
type oneUser struct{ name, pass string }

// Check implements the server's authentication.
func (u oneUser) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	name := subtle.ConstantTimeCompare([]byte(o.Username), []byte(u.name))
	pass := subtle.ConstantTimeCompare([]byte(o.Password), []byte(u.pass))
	return name&pass == 1
}
