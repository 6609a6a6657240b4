// Package cluster runs a small NATS cluster in this process, on loopback sockets, for testing what
// happens to replicated streams when leaders move and servers stop and restart.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/embedded"
)

const (
	// Size is how many servers a cluster has. A smaller one has no majority after losing one.
	Size = 3

	// These are below the ports that operating systems use for outgoing connections, so a stopped
	// server finds its own still free.
	firstPort, lastPort = 12_000, 32_000

	// Another process may take a port before the server does.
	portAttempts = 5

	// An election after a crash takes up to ten seconds.
	readyTimeout = 30 * time.Second
	pollInterval = 5 * time.Millisecond
)

// Cluster is three servers. It is safe for concurrent use.
type Cluster struct {
	remove  string                  // a directory that Close removes; "": none
	options [Size][]embedded.Option // of servers, the same at every start
	closing sync.Once

	mu      sync.Mutex // held while servers start and stop
	servers []*embedded.Server
	stopped [Size]bool
	conns   []*nats.Conn
}

// Start starts three servers, each with a directory of its own below dir, and returns when they have
// elected a leader and see each other. "" is a directory that Close removes. Each server gets a
// listener, on a port that it keeps across restarts.
func Start(ctx context.Context, dir string, opts ...embedded.Option) (*Cluster, error) {
	c := &Cluster{}
	var err error
	if dir == "" {
		if c.remove, err = os.MkdirTemp("", "turnlog-cluster-"); err != nil {
			return nil, fmt.Errorf("start cluster: %w", err)
		}
		dir = c.remove
	}
	for range portAttempts {
		c.options = options(dir, opts)
		if err = c.startAll(ctx); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	return c, nil
}

// options returns how each server starts. Whether the ports are free shows at the start.
func options(dir string, opts []embedded.Option) (all [Size][]embedded.Option) {
	var ports, routes []string
	for len(ports) < 2*Size {
		if p := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort)); !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	for _, p := range ports[Size:] {
		routes = append(routes, strconv.Quote("nats://127.0.0.1:"+p))
	}
	for i := range all {
		name := "turnlog-" + strconv.Itoa(i+1)
		// A pool of routes per pair of servers adds throughput only between machines.
		settings := fmt.Sprintf("server_name: %s\ncluster { name: turnlog, listen: %q, pool_size: -1, routes: [%s] }", name, "127.0.0.1:"+ports[Size+i], strings.Join(routes, ", "))
		all[i] = append(slices.Clip(opts),
			embedded.WithStore(filepath.Join(dir, name)), embedded.WithListener("127.0.0.1:"+ports[i]), embedded.WithSettings(settings))
	}
	return all
}

// startAll starts every server, or none.
func (c *Cluster) startAll(ctx context.Context) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if err != nil {
			c.closeServers()
		}
	}()
	c.servers = nil
	for _, opts := range c.options {
		s, err := embedded.Start(ctx, opts...)
		if err != nil {
			return err
		}
		c.servers = append(c.servers, s)
	}
	return c.awaitReady(ctx)
}

// Servers returns all servers in a fixed order. A stopped server keeps its place until Restart
// replaces it.
func (c *Cluster) Servers() []*embedded.Server {
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
	nc, err := nats.Connect(c.ClientURL(), append([]nats.Option{
		embedded.BubbleSafe(),
		nats.ReconnectBufSize(-1),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, nc)
	return nc, nil
}

// Stop stops server i, counted from 0, after it has handed over its leaderships. Its store remains.
func (c *Cluster) Stop(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop(i)
}

func (c *Cluster) stop(i int) {
	c.servers[i].Close()
	c.stopped[i] = true
}

// Restart stops server i if it is running, starts it on the same store and ports, and returns when
// it has caught up.
func (c *Cluster) Restart(ctx context.Context, i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop(i)
	s, err := embedded.Start(ctx, c.options[i]...)
	if err != nil {
		return fmt.Errorf("restart server %d: %w", i, err)
	}
	c.servers[i], c.stopped[i] = s, false
	if err := c.awaitReady(ctx); err != nil {
		return fmt.Errorf("restart server %s: %w", s.Name(), err)
	}
	return nil
}

// Close closes the connections made by Connect and all servers. Later calls wait for the first one.
func (c *Cluster) Close() {
	c.closing.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, nc := range c.conns {
			nc.Close()
		}
		c.closeServers()
		if c.remove != "" {
			_ = os.RemoveAll(c.remove) // a temporary directory
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
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("no leader of all servers after %v", readyTimeout))
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
	for i, s := range c.servers {
		if c.stopped[i] {
			continue
		}
		peers, healthy := s.Health()
		if !healthy {
			return false
		}
		running++
		seen = max(seen, peers)
	}
	return running > 0 && seen >= running
}
