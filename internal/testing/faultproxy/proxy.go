package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Direction is one of the two directions of a connection.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// ErrRefused is returned by Dial while the proxy refuses connections or is severed.
var ErrRefused = errors.New("connection refused by the proxy")

// rules are the faults of one direction.
type rules struct {
	delay   time.Duration
	rate    int // bytes a second; 0: unlimited
	hold    bool
	swallow bool
}

// Proxy is the network between one process and its servers. Without faults it forwards everything. It
// is safe for concurrent use.
type Proxy struct {
	running sync.WaitGroup // relays and listeners

	mu        sync.Mutex // guards the fields below
	rules     [2]rules
	changed   chan struct{} // closed when the rules change
	refusing  bool
	closed    bool
	links     map[*link]struct{}
	listeners []net.Listener
}

// New returns a proxy without faults.
func New() *Proxy {
	return &Proxy{changed: make(chan struct{}), links: make(map[*link]struct{})}
}

// Dial connects to an address through the proxy. It fits nats.SetCustomDialer.
func (p *Proxy) Dial(network, address string) (net.Conn, error) {
	return p.via(func() (net.Conn, error) {
		var d net.Dialer
		ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
		defer cancel()
		return d.DialContext(ctx, network, address)
	})
}

// Join connects to a server in this process through the proxy, in a bubble of
// testing/synctest too. It refuses while any fault lasts: a client holds a lock during its
// handshake, and virtual time stands still while another goroutine waits for that lock.
func (p *Proxy) Join(server func() (net.Conn, error)) (net.Conn, error) {
	for _, d := range []Direction{ToServer, ToClient} {
		if r, _ := p.now(d); r != (rules{}) {
			return nil, ErrRefused
		}
	}
	return p.via(server)
}

// via returns a connection through the proxy to the server that dial reaches.
func (p *Proxy) via(dial func() (net.Conn, error)) (net.Conn, error) {
	if err := p.admits(); err != nil {
		return nil, err
	}
	server, err := dial()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	ours, theirs := net.Pipe()
	if err := p.join(ours, server); err != nil {
		return nil, errors.Join(err, theirs.Close())
	}
	return theirs, nil
}

const dialTimeout = 2 * time.Second

// Listen accepts connections at an address, port 0 for any free one, and forwards each to
// the next target that accepts it. It returns the address.
func (p *Proxy) Listen(ctx context.Context, address string, targets ...string) (string, error) {
	if len(targets) == 0 {
		return "", errors.New("proxy: no target to forward to")
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("proxy: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return "", errors.Join(ErrRefused, l.Close())
	}
	p.listeners = append(p.listeners, l)
	p.running.Go(func() { p.accept(l, targets) }) //nolint:contextcheck // until Close
	return l.Addr().String(), nil
}

// accept serves a listener until it is closed.
func (p *Proxy) accept(l net.Listener, targets []string) {
	for n := 0; ; n++ {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() {
			if err := p.forward(client, targets, n); err != nil {
				_ = client.Close() // so the client sees that no target answered
			}
		})
	}
}

// forward joins a client with the first target that answers, starting at the n-th.
func (p *Proxy) forward(client net.Conn, targets []string, n int) error {
	if err := p.admits(); err != nil {
		return err
	}
	var d net.Dialer
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	var failed error
	for i := range targets {
		server, err := d.DialContext(ctx, "tcp", targets[(n+i)%len(targets)])
		if err == nil {
			return p.join(client, server)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func (p *Proxy) admits() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing || p.closed {
		return ErrRefused
	}
	return nil
}

// Refuse starts or stops refusing new connections. Existing ones stay.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = yes
}

// Cut resets all connections, drops bytes in flight, and returns the number of connections.
// New connections are accepted.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.links)
	for l := range p.links {
		l.cut()
	}
	return n
}

// Delay delays every byte in both directions by d; 0 ends it.
func (p *Proxy) Delay(d time.Duration) {
	p.change(func(r *rules) { r.delay = d }, ToServer, ToClient)
}

// Throttle limits each direction of each connection to a rate; 0 ends it.
func (p *Proxy) Throttle(bytesPerSecond int) {
	p.change(func(r *rules) { r.rate = bytesPerSecond }, ToServer, ToClient)
}

// Hold delays a direction. When it ends, all held bytes arrive.
func (p *Proxy) Hold(d Direction, yes bool) {
	p.change(func(r *rules) { r.hold = yes }, d)
}

// Swallow drops everything in a direction. When it ends, the connections that lost bytes
// are cut.
func (p *Proxy) Swallow(d Direction, yes bool) {
	p.change(func(r *rules) { r.swallow = yes }, d)
	if yes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if l.torn[d].Load() {
			l.cut()
		}
	}
}

// Heal ends all faults.
func (p *Proxy) Heal() {
	p.Refuse(false)
	p.Swallow(ToServer, false)
	p.Swallow(ToClient, false)
	p.change(func(r *rules) { *r = rules{} }, ToServer, ToClient)
}

// Sever cuts all connections and refuses new ones for good. Heal does not undo it.
func (p *Proxy) Sever() {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.listeners {
		_ = l.Close() // a listener that is closed is as good as one that fails to close
	}
	p.mu.Unlock()
	p.Cut()
}

// Close severs the proxy and waits until none of its goroutines runs.
func (p *Proxy) Close() {
	p.Sever()
	p.running.Wait()
}

func (p *Proxy) change(edit func(*rules), ds ...Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range ds {
		edit(&p.rules[d])
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// now returns the rules of a direction, and a channel that is closed when they change.
func (p *Proxy) now(d Direction) (rules, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules[d], p.changed
}
