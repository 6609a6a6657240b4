package faultproxy

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chunkSize = 32 << 10

	// How many chunks may be in flight in one direction; a slow link also buffers many.
	inFlight = 256
)

// link is one connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	torn           [2]atomic.Bool // bytes in that direction were swallowed
	over           chan struct{}  // closed when the link is cut
	once           sync.Once
}

// chunk is a piece of the stream and the time it was read.
type chunk struct {
	bytes []byte
	sent  time.Time
}

// join relays between two connections until one closes or the link is cut.
func (p *Proxy) join(client, server net.Conn) error {
	l := &link{proxy: p, client: client, server: server, over: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing || p.closed {
		l.cut()
		return ErrRefused
	}
	p.links[l] = struct{}{}
	p.running.Go(l.run)
	return nil
}

func (l *link) run() {
	var both sync.WaitGroup
	both.Go(func() { l.relay(ToServer, l.client, l.server) })
	both.Go(func() { l.relay(ToClient, l.server, l.client) })
	both.Wait()
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	delete(l.proxy.links, l)
}

// cut resets both connections. Undelivered bytes are lost.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.over)
		for _, c := range []net.Conn{l.client, l.server} {
			if t, ok := c.(*net.TCPConn); ok {
				_ = t.SetLinger(0) // reset instead of an orderly close
			}
			_ = c.Close() // there is nothing left to save
		}
	})
}

// relay forwards one direction. At the end of the stream, chunks in flight are delivered
// before the link ends.
func (l *link) relay(d Direction, from, to net.Conn) {
	defer l.cut()
	queue := make(chan chunk, inFlight)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(queue)
		l.read(from, queue)
	})
	for c := range queue {
		if !l.deliver(d, to, c) {
			break
		}
	}
	l.cut()
	reading.Wait()
}

func (l *link) read(from net.Conn, queue chan<- chunk) {
	buf := make([]byte, chunkSize)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			select {
			case queue <- chunk{bytes.Clone(buf[:n]), time.Now()}:
			case <-l.over:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// deliver applies the rules to a chunk. It reports whether the link continues.
func (l *link) deliver(d Direction, to net.Conn, c chunk) bool {
	for {
		r, changed := l.proxy.now(d)
		if r.swallow || l.torn[d].Load() {
			l.torn[d].Store(true)
			return true
		}
		if wait := time.Until(c.sent.Add(r.delay)); r.hold || wait > 0 {
			if !l.rest(r.hold, wait, changed) {
				return false
			}
			continue
		}
		if _, err := to.Write(c.bytes); err != nil {
			return false
		}
		return r.rate <= 0 || l.rest(false, time.Duration(len(c.bytes))*time.Second/time.Duration(r.rate), changed)
	}
}

// rest waits until the rules change, or for d unless the direction is held. It reports
// whether the link continues.
func (l *link) rest(hold bool, d time.Duration, changed <-chan struct{}) bool {
	var up <-chan time.Time
	if !hold {
		t := time.NewTimer(d)
		defer t.Stop()
		up = t.C
	}
	select {
	case <-up:
	case <-changed:
	case <-l.over:
		return false
	}
	return true
}
