package embedded

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

const (
	// The server's name, unless settings have another one. Stored streams belong to it, so every start
	// must use the same one.
	serverName = "turnlog"

	// The server's default of 1,000 per stream includes every observer and every watcher of a
	// bucket.
	maxConsumersPerStream = 10_000

	// The server remembers closed connections for its monitoring pages. Its default of 10,000 is a quarter of the memory
	// that remains for two minutes after a test has stopped a server, until its last timer ends.
	maxClosedClients = 100

	// A start and a connection take milliseconds; this is for an overloaded machine.
	startTimeout = 10 * time.Second
	startPoll    = 100 * time.Millisecond // how often a start checks for a fatal line
)

// Server is a NATS server in this process. It is safe for concurrent use.
type Server struct {
	nats    *server.Server
	cfg     config
	store   *store
	clients clients
	closing sync.Once
}

// Start starts a server and returns when it accepts connections. ctx bounds only the start; the
// server runs until Close. It returns [ErrStoreInUse] if another server holds the store directory.
func Start(ctx context.Context, opts ...Option) (*Server, error) {
	cfg, err := configure(opts)
	if err != nil {
		return nil, fmt.Errorf("start embedded server: %w", err)
	}
	s, err := start(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("start embedded server: %w", err)
	}
	return s, nil
}

func start(ctx context.Context, cfg config) (*Server, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, a := range []*address{cfg.listen, cfg.monitor} {
		if a == nil {
			continue
		}
		if err := probe(ctx, *a); err != nil {
			return nil, err
		}
	}
	st, err := openStore(cfg.store)
	if err != nil {
		return nil, err
	}
	ns, err := launch(ctx, cfg, st.dir)
	if err != nil {
		return nil, errors.Join(err, st.release())
	}
	warnIfOpen(cfg)
	return &Server{nats: ns, cfg: cfg, store: st}, nil
}

// launch starts the server, or cleans up after a failure.
func launch(ctx context.Context, cfg config, dir string) (*server.Server, error) {
	ns, err := server.NewServer(serverOptions(cfg, dir))
	if err != nil {
		return nil, fmt.Errorf("configure: %w", err)
	}
	log := newServerLog(cfg.log)
	ns.SetLoggerV2(log, false, false, false)
	patience := startTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline))
	}
	ns.Start()
	for deadline := time.Now().Add(patience); log.failure() == nil && time.Now().Before(deadline); {
		if ns.ReadyForConnections(startPoll) {
			return ns, nil
		}
	}
	ns.Shutdown()
	ns.WaitForShutdown()
	if err := log.failure(); err != nil {
		return nil, fmt.Errorf("nats-server with store %s: %w", dir, err)
	}
	return nil, fmt.Errorf("not ready for connections after %v", patience)
}

func serverOptions(cfg config, dir string) *server.Options {
	o := cmp.Or(cfg.settings, &server.Options{})
	o.ServerName = cmp.Or(o.ServerName, serverName)
	o.NoSigs = true // signals belong to the program
	o.NoLog = true  // launch sets the logger

	o.JetStream = true
	o.DisableJetStreamBanner = true
	o.StoreDir = dir
	o.SyncAlways = o.SyncAlways || cfg.sync
	if cfg.store == "" {
		o.MaxClosedClients = maxClosedClients
	}
	o.JetStreamLimits = server.JSLimitOpts{DefaultMaxConsumers: maxConsumersPerStream}

	o.DontListen = cfg.listen == nil
	if cfg.user+cfg.token != "" {
		o.CustomClientAuthentication = oneUser{cfg.user, cfg.pass, cfg.token}
	}
	if cfg.listen != nil {
		o.Host, o.Port = cfg.listen.host, cfg.listen.port
		if o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
	}
	if cfg.monitor != nil {
		o.HTTPHost, o.HTTPPort = cfg.monitor.host, cfg.monitor.port
		if o.HTTPPort == 0 {
			o.HTTPPort = server.RANDOM_PORT
		}
	}
	return o
}

// Connect opens a connection inside the process, without a socket. While the connection is down it
// refuses to publish instead of buffering, because a late append is worse than a failed one; opts
// may override this. Close closes the connection.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	nc, err := s.clients.connect(s.cfg, "", append([]nats.Option{nats.InProcessServer(&dialer{server: s.nats})}, opts...))
	if err != nil {
		return nil, fmt.Errorf("connect to embedded server: %w", err)
	}
	return nc, nil
}

// ClientURL returns the URL for TCP connections, without credentials, or "" if there is no
// listener.
func (s *Server) ClientURL() string {
	if s.cfg.listen == nil {
		return ""
	}
	u, err := url.Parse(s.nats.ClientURL())
	if err != nil {
		return ""
	}
	u.Host = net.JoinHostPort(address{host: u.Hostname()}.reachable(), u.Port())
	return u.String()
}

// MonitorURL returns the URL of the server's monitoring pages, or "" without [WithMonitor].
func (s *Server) MonitorURL() string {
	if s.cfg.monitor == nil {
		return ""
	}
	return "http://" + net.JoinHostPort(s.cfg.monitor.reachable(), strconv.Itoa(s.nats.MonitorAddr().Port))
}

// Health reports whether the server is healthy, and how many servers of its cluster it sees if it leads
// them. Settings make it a server of a cluster; see [WithSettings].
func (s *Server) Health() (peers int, healthy bool) {
	return len(s.nats.JetStreamClusterPeers()), s.nats.Healthz(nil).Status == "ok"
}

// Name returns the server's name, as in descriptions of streams and their placement.
func (s *Server) Name() string { return s.nats.Name() }

// InMemory reports whether the server has no store directory. Nothing outlives it, so its streams
// should be in memory too.
func (s *Server) InMemory() bool { return s.cfg.store == "" }

// Close closes the connections made by Connect, stops the server, waits until it has stopped, and
// releases the store directory. Later calls wait for the first one.
func (s *Server) Close() {
	s.closing.Do(func() {
		s.clients.close()
		if s.InMemory() {
			_ = s.nats.DisableJetStream() // otherwise Shutdown waits 50 ms to end pull requests of closed connections
		}
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		if err := s.store.release(); err != nil {
			s.cfg.log.Warn("store not released", zap.Error(err))
		}
	})
}

// clients are the connections opened by Connect.
type clients struct {
	mu     sync.Mutex
	conns  []*nats.Conn
	closed bool
}

func (c *clients) connect(cfg config, url string, opts []nats.Option) (*nats.Conn, error) {
	base := []nats.Option{nats.Name(serverName), nats.ReconnectBufSize(-1), nats.Timeout(startTimeout)}
	if cfg.user != "" {
		base = append(base, nats.UserInfo(cfg.user, cfg.pass))
	}
	if cfg.token != "" {
		base = append(base, nats.Token(cfg.token))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("the server is closed")
	}
	nc, err := nats.Connect(url, append(base, opts...)...)
	if err != nil {
		return nil, err //nolint:wrapcheck // callers name the server
	}
	c.conns = append(slices.DeleteFunc(c.conns, (*nats.Conn).IsClosed), nc)
	return nc, nil
}

func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, nc := range c.conns {
		nc.Close()
	}
}

// BubbleSafe lets one TCP connection reconnect while tests run in synctest bubbles. Connections of a Server
// already can.
func BubbleSafe() nats.Option { return nats.SetCustomDialer(&dialer{}) }

// dialer makes the connections of one client, in the process or over TCP.
//
// After a reconnect the client flushes with a timer from a pool of the process. A timer of one synctest
// bubble ends the process if it is used outside of that bubble. So a reconnect first empties all pools,
// which takes two runs of the garbage collector.
type dialer struct {
	server *server.Server
	before bool // the client was connected before; only one goroutine at a time dials
}

func (d *dialer) reconnecting() {
	if d.before {
		runtime.GC()
		runtime.GC()
	}
	d.before = true
}

// InProcessConn implements nats.InProcessConnProvider.
func (d *dialer) InProcessConn() (net.Conn, error) {
	d.reconnecting()
	return d.server.InProcessConn() //nolint:wrapcheck // for the client
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.reconnecting()
	return net.DialTimeout(network, address, nats.DefaultTimeout) //nolint:wrapcheck,noctx // for the client, which has no context
}

// PrepareForSynctest makes servers usable in testing/synctest bubbles. Call it once in TestMain,
// before m.Run.
//
// The server has one clock per process, whose goroutine waits on a channel that belongs to no
// bubble. If the first server starts inside a bubble, so does that goroutine; the bubble is then
// never idle, its time stands still and the test hangs. PrepareForSynctest starts the clock outside
// and keeps it running.
//
// One restriction remains: the NATS client pools used timers per process, and a timer must not
// leave its bubble. In tests with bubbles use RequestWithContext, NextMsgWithContext and
// FlushWithContext instead of Request, NextMsg, Flush and FlushTimeout. The client's JetStream API
// already does.
func PrepareForSynctest() { ats.Register() }

// oneUser authenticates one name and password, or one token. The server's own options for this warn
// about plain text, as if it were in a configuration file.
type oneUser struct{ name, pass, token string }

// Check implements the server's authentication.
func (u oneUser) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	name := subtle.ConstantTimeCompare([]byte(o.Username), []byte(u.name))
	pass := subtle.ConstantTimeCompare([]byte(o.Password), []byte(u.pass))
	token := subtle.ConstantTimeCompare([]byte(o.Token), []byte(u.token))
	return name&pass&token == 1
}
