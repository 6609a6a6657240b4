package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

const (
	loopback = "127.0.0.1"

	// A smaller cluster has no majority after losing a server.
	minClusterSize = 3

	// These are below the ports that operating systems use for outgoing connections, so a stopped
	// server finds its own still free.
	firstPort, lastPort = 12_000, 32_000

	// Another process may take a port before the server does.
	portAttempts = 5

	// An election after a crash takes up to ten seconds.
	clusterTimeout = 30 * time.Second
	pollInterval   = 5 * time.Millisecond
)

// Cluster is a small NATS cluster in this process, on loopback sockets. It is for testing what
// happens to replicated streams when leaders move and servers stop and restart. It is safe for
// concurrent use.
type Cluster struct {
	cfg     config
	base    *store // holds a directory per server
	clients clients
	closing sync.Once

	mu      sync.Mutex // held while servers start and stop
	servers []*Server
}

// routes are the ports on which the servers of a cluster reach each other.
type routes struct {
	own int
	all []int
}

func (r *routes) apply(o *server.Options) {
	if r == nil {
		return
	}
	// A pool of routes per pair of servers adds throughput only between machines.
	o.Cluster = server.ClusterOpts{Name: serverName, Host: loopback, Port: r.own, PoolSize: -1}
	for _, p := range r.all {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: address{loopback, p}.String()})
	}
}

// StartCluster starts n servers, at least three, and returns when they have elected a leader and
// see each other. It takes the options of [Start] except a listener: each server gets one, on a
// port that it keeps across restarts. A store directory holds one directory per server.
func StartCluster(ctx context.Context, n int, opts ...Option) (*Cluster, error) {
	c, err := startCluster(ctx, n, opts)
	if err != nil {
		return nil, fmt.Errorf("start embedded cluster: %w", err)
	}
	return c, nil
}

func startCluster(ctx context.Context, n int, opts []Option) (*Cluster, error) {
	cfg, err := configure(opts)
	switch {
	case err != nil:
		return nil, err
	case n < minClusterSize:
		return nil, fmt.Errorf("%d servers have no majority after losing one: give %d or more", n, minClusterSize)
	case cfg.listen != nil:
		return nil, errors.New("a cluster chooses its own addresses: omit the listener")
	}
	base, err := openStore(cfg.store)
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, base: base}
	for range portAttempts {
		if err = c.startAll(ctx, n); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, base.release())
	}
	return c, nil
}

// startAll starts every server on new ports, or none.
func (c *Cluster) startAll(ctx context.Context, n int) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if err != nil {
			c.closeServers()
		}
	}()
	c.servers = nil
	for _, m := range members(c.cfg, c.base.dir, n) {
		s, err := startMember(ctx, m)
		if err != nil {
			return err
		}
		c.servers = append(c.servers, s)
	}
	return c.awaitReady(ctx)
}

// members returns the configuration of each server. Whether the ports are free shows at the start.
func members(cfg config, dir string, n int) []config {
	var ports []int
	for len(ports) < 2*n {
		if p := firstPort + rand.IntN(lastPort-firstPort); !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	all := make([]config, n)
	for i := range all {
		all[i] = cfg
		all[i].name = serverName + "-" + strconv.Itoa(i+1)
		all[i].store = filepath.Join(dir, all[i].name)
		all[i].listen = &address{loopback, ports[i]}
		all[i].routes = &routes{own: ports[n+i], all: ports[n:]}
	}
	return all
}

func startMember(ctx context.Context, m config) (*Server, error) {
	err := probe(ctx, address{loopback, m.routes.own})
	if err != nil {
		return nil, fmt.Errorf("server %s: routes: %w", m.name, err)
	}
	s, err := start(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", m.name, err)
	}
	return s, nil
}

// Servers returns all servers in a fixed order. A stopped server keeps its place until Restart
// replaces it.
func (c *Cluster) Servers() []*Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.servers)
}

// ClientURL returns the URLs of all servers, separated by commas.
func (c *Cluster) ClientURL() string {
	var urls []string
	for _, s := range c.Servers() {
		urls = append(urls, s.ClientURL())
	}
	return strings.Join(urls, ",")
}

// Connect opens a TCP connection that moves to another server when its own stops, and never gives
// up. While it is down it refuses to publish. Close closes the connection.
func (c *Cluster) Connect(opts ...nats.Option) (*nats.Conn, error) {
	nc, err := c.clients.connect(c.cfg, c.ClientURL(), append([]nats.Option{
		BubbleSafe(),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond),
	}, opts...))
	if err != nil {
		return nil, fmt.Errorf("connect to embedded cluster: %w", err)
	}
	return nc, nil
}

// Stop stops server i, counted from 0, after it has handed over its leaderships. Its store remains.
func (c *Cluster) Stop(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[i].Close()
}

// Restart stops server i if it is running, starts it on the same store and ports, and returns when
// it has caught up.
func (c *Cluster) Restart(ctx context.Context, i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[i].Close()
	s, err := startMember(ctx, c.servers[i].cfg)
	if err != nil {
		return fmt.Errorf("restart embedded cluster: %w", err)
	}
	c.servers[i] = s
	if err := c.awaitReady(ctx); err != nil {
		return fmt.Errorf("restart embedded cluster: server %s: %w", s.Name(), err)
	}
	return nil
}

// Close closes the connections made by Connect and all servers, and releases the store directory.
// Later calls wait for the first one.
func (c *Cluster) Close() {
	c.closing.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.clients.close()
		c.closeServers()
		if err := c.base.release(); err != nil {
			c.cfg.log.Warn("store not released", zap.Error(err))
		}
	})
}

// closeServers stops all servers at once. One at a time, each would hand its leaderships to the
// next one to stop.
func (c *Cluster) closeServers() {
	var wg sync.WaitGroup
	for _, s := range c.servers {
		wg.Go(s.Close)
	}
	wg.Wait()
}

// awaitReady waits until the running servers have a leader that sees them all, and each of them
// reports that it is healthy.
func (c *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clusterTimeout, fmt.Errorf("no leader of all servers after %v", clusterTimeout))
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !c.ready() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (c *Cluster) ready() bool {
	running, seen := 0, 0
	for _, s := range c.servers {
		if !s.nats.Running() {
			continue
		}
		if s.nats.Healthz(nil).Status != "ok" {
			return false
		}
		running++
		seen = max(seen, len(s.nats.JetStreamClusterPeers())) // 0 unless it leads
	}
	return running > 0 && seen >= running
}
