package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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

	// Fewer servers than this cannot lose one and still have a majority.
	minClusterSize = 3

	// Ports are chosen below the ranges from which systems take the ports of
	// outgoing connections, so that a stopped server finds its own free again.
	firstPort, lastPort = 12_000, 32_000

	// A chosen port may be taken before the server has it.
	portAttempts = 5

	// An election after a hard stop takes up to ten seconds.
	clusterTimeout = 30 * time.Second
	pollInterval   = 5 * time.Millisecond
)

// Cluster is a small NATS cluster in this process, on loopback sockets, for
// streams with replicas: to test what happens when a leader moves, a server
// stops and comes back. Its methods may be called from any goroutine.
type Cluster struct {
	cfg   config
	base  *store // holds one directory per server
	nodes []node

	mu      sync.Mutex // held while servers start and stop
	servers []*Server
	conns   []*nats.Conn
}

// node is what a server of a cluster keeps over restarts.
type node struct {
	name string
	cfg  config
	net  routing
}

// routing is what makes a server part of a cluster.
type routing struct {
	port  int   // where this server takes routes
	ports []int // of all servers, this one included
}

func (r *routing) apply(o *server.Options) {
	if r == nil {
		return
	}
	// A pool of routes per pair of servers is for throughput between machines.
	o.Cluster = server.ClusterOpts{Name: serverName, Host: loopback, Port: r.port, PoolSize: -1}
	for _, p := range r.ports {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort(loopback, strconv.Itoa(p))})
	}
}

// StartCluster starts n servers, three at least, and returns when they have
// elected a leader and see each other. The options are those of [Start], without
// a listener: every server has one, on a port that it keeps over restarts. A
// store directory holds one directory per server.
func StartCluster(ctx context.Context, n int, opts ...Option) (*Cluster, error) {
	cfg, err := configure(opts)
	if err != nil {
		return nil, fmt.Errorf("start embedded cluster: %w", err)
	}
	switch {
	case n < minClusterSize:
		return nil, fmt.Errorf("start embedded cluster: %d servers cannot lose one: give %d or more", n, minClusterSize)
	case cfg.listen != nil:
		return nil, errors.New("start embedded cluster: it chooses its own listen addresses: leave the listener out")
	}
	base, err := openStore(cfg.store)
	if err != nil {
		return nil, fmt.Errorf("start embedded cluster: %w", err)
	}
	c := &Cluster{cfg: cfg, base: base}
	for attempt := range portAttempts {
		err = c.startAll(ctx, n)
		if !errors.Is(err, syscall.EADDRINUSE) || attempt == portAttempts-1 {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start embedded cluster: %w", errors.Join(err, base.release()))
	}
	return c, nil
}

// startAll starts every server on fresh ports, or none.
func (c *Cluster) startAll(ctx context.Context, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes, c.servers = plan(c.cfg, c.base.dir, n), nil
	for _, nd := range c.nodes {
		s, err := nd.start(ctx)
		if err != nil {
			c.closeServers()
			return err
		}
		c.servers = append(c.servers, s)
	}
	if err := c.awaitReady(ctx); err != nil {
		c.closeServers()
		return err
	}
	return nil
}

// plan gives each server its name, directory and ports.
func plan(cfg config, dir string, n int) []node {
	ports := choosePorts(2 * n)
	nodes := make([]node, n)
	for i := range nodes {
		nd := node{name: serverName + "-" + strconv.Itoa(i+1), cfg: cfg}
		nd.cfg.store = filepath.Join(dir, nd.name)
		nd.cfg.listen = &address{host: loopback, port: ports[i]}
		nd.net = routing{port: ports[n+i], ports: ports[n:]}
		nodes[i] = nd
	}
	return nodes
}

// choosePorts returns n different ports; whether they are free shows when the
// servers start.
func choosePorts(n int) []int {
	var ports []int
	for len(ports) < n {
		if p := firstPort + rand.IntN(lastPort-firstPort); !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	return ports
}

func (nd node) start(ctx context.Context) (*Server, error) {
	if err := probe(ctx, address{host: loopback, port: nd.net.port}); err != nil {
		return nil, fmt.Errorf("server %s: routes: %w", nd.name, err)
	}
	s, err := start(ctx, nd.cfg, nd.name, &nd.net)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", nd.name, err)
	}
	return s, nil
}

// Servers returns all servers in a fixed order. One that was stopped stays in its
// place, closed, until Restart puts a new one there.
func (c *Cluster) Servers() []*Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.servers)
}

// ClientURL returns the URLs of all servers, separated by commas, as every NATS
// client takes them.
func (c *Cluster) ClientURL() string {
	urls := make([]string, len(c.nodes))
	for i, nd := range c.nodes {
		urls[i] = "nats://" + nd.cfg.listen.String()
	}
	return strings.Join(urls, ",")
}

// Connect opens a connection over TCP that knows all servers, moves to another
// one when its own stops, and never gives up. While it is cut off it refuses to
// publish. The cluster's Close closes it, if the caller has not.
func (c *Cluster) Connect(opts ...nats.Option) (*nats.Conn, error) {
	base := []nats.Option{
		nats.Name("turnlog"),
		nats.ReconnectBufSize(-1),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond),
	}
	if c.cfg.user != "" {
		base = append(base, nats.UserInfo(c.cfg.user, c.cfg.pass))
	}
	nc, err := nats.Connect(c.ClientURL(), append(base, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to embedded cluster: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(slices.DeleteFunc(c.conns, (*nats.Conn).IsClosed), nc)
	return nc, nil
}

// Stop stops server i, counted from 0, in good order: it hands its leaderships
// over first. Its store stays.
func (c *Cluster) Stop(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[i].Close()
}

// Restart stops server i if it runs, starts it again on the same store and
// ports, and returns when it has caught up with the others.
func (c *Cluster) Restart(ctx context.Context, i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[i].Close()
	s, err := c.nodes[i].start(ctx)
	if err != nil {
		return fmt.Errorf("restart embedded cluster: %w", err)
	}
	c.servers[i] = s
	if err := c.awaitReady(ctx); err != nil {
		return fmt.Errorf("restart embedded cluster: server %s: %w", s.Name(), err)
	}
	return nil
}

// Close closes the connections made by Connect and all servers, and gives the
// store directory up. Further calls do nothing.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base == nil {
		return
	}
	for _, nc := range c.conns {
		nc.Close()
	}
	c.closeServers()
	if err := c.base.release(); err != nil {
		c.cfg.log.Warn("store not released", zap.Error(err))
	}
	c.base = nil
}

// closeServers stops the servers at the same time: one after the other, each
// would try to hand its leaderships to one that is about to go.
func (c *Cluster) closeServers() {
	var wg sync.WaitGroup
	for _, s := range c.servers {
		wg.Go(s.Close)
	}
	wg.Wait()
}

// awaitReady waits until the running servers have a leader that sees them all,
// and each of them says that it is up to date.
func (c *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clusterTimeout, fmt.Errorf("no leader and full view after %v", clusterTimeout))
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
		if s.stopped() {
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
