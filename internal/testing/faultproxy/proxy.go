package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Direction is which way bytes go.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// ErrRefused is what Dial returns while the proxy lets nobody in.
var ErrRefused = errors.New("connection refused by the fault proxy")

// rules say what becomes of bytes that go one way.
type rules struct {
	delay   time.Duration
	rate    int // bytes a second; 0: as fast as they come
	hold    bool
	swallow bool
}

// Proxy is a way between one party and its servers. Its methods are safe for
// concurrent use. Without faults it passes on what it gets.
type Proxy struct {
	running sync.WaitGroup // relays and listeners

	mu        sync.Mutex // guards what follows
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

// Dial connects to an address by way of the proxy. It fits nats.SetCustomDialer.
func (p *Proxy) Dial(network, address string) (net.Conn, error) {
	if err := p.admits(); err != nil {
		return nil, err
	}
	var d net.Dialer
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	server, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	ours, theirs := net.Pipe()
	if err := p.join(ours, server); err != nil {
		return nil, errors.Join(err, theirs.Close())
	}
	return theirs, nil
}

const dialTimeout = 2 * time.Second

// Listen takes connections at an address, port 0 for any free one, and passes each to
// one of the targets: to the next one that takes it. It returns the address.
func (p *Proxy) Listen(ctx context.Context, address string, targets ...string) (string, error) {
	if len(targets) == 0 {
		return "", errors.New("fault proxy: no target: say where connections go to")
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("fault proxy: %w", err)
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
				_ = client.Close() // it learns by this that nobody is there
			}
		})
	}
}

// forward joins a client with the first target that answers, from the n-th on.
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

// Refuse lets nobody in any more, or everybody again. Connections that are there stay.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = yes
}

// Cut ends all connections at once, with whatever is on its way, and returns how many
// there were. New ones may come.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.links)
	for l := range p.links {
		l.cut()
	}
	return n
}

// Delay makes every byte of both directions take so much longer; 0 ends it.
func (p *Proxy) Delay(d time.Duration) {
	p.change(func(r *rules) { r.delay = d }, ToServer, ToClient)
}

// Throttle lets no more than so many bytes a second pass in each direction of each
// connection; 0 ends it.
func (p *Proxy) Throttle(bytesPerSecond int) {
	p.change(func(r *rules) { r.rate = bytesPerSecond }, ToServer, ToClient)
}

// Hold keeps what goes in a direction back. When it is let go, all of it arrives.
func (p *Proxy) Hold(d Direction, yes bool) {
	p.change(func(r *rules) { r.hold = yes }, d)
}

// Swallow makes what goes in a direction disappear. When that ends, the connections
// that lost something are cut.
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

// Sever cuts all connections for good: nothing lets anybody in again.
func (p *Proxy) Sever() {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.listeners {
		_ = l.Close() // nobody waits for it any more
	}
	p.mu.Unlock()
	p.Cut()
}

// Close severs the way and waits until nothing of the proxy runs.
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

// now returns what holds for a direction, and what tells when that changes.
func (p *Proxy) now(d Direction) (rules, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules[d], p.changed
}
