package faultproxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnlog/turnlog/internal/testing/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// echo is a server that echoes every line and reports what it received.
type echo struct {
	addr  string
	heard chan string
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{addr: l.Addr().String(), heard: make(chan string, 100)}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for r := bufio.NewReader(c); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					e.heard <- line
					if _, err := io.WriteString(c, line); err != nil {
						return
					}
				}
			}()
		}
	}()
	return e
}

// party is a client of the server.
type party struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

// ways runs a test through both kinds of proxies.
func ways(t *testing.T, body func(t *testing.T, p *faultproxy.Proxy, e *echo, dial func() (*party, error))) {
	t.Helper()
	for name, listen := range map[string]bool{"dialled": false, "listening": true} {
		t.Run(name, func(t *testing.T) {
			e, p := newEcho(t), faultproxy.New()
			t.Cleanup(p.Close)
			open := func() (net.Conn, error) { return p.Dial("tcp", e.addr) }
			if listen {
				addr, err := p.Listen(t.Context(), "127.0.0.1:0", "127.0.0.1:1", e.addr) // nothing listens at the first
				if err != nil {
					t.Fatal(err)
				}
				open = func() (net.Conn, error) {
					var d net.Dialer
					return d.DialContext(t.Context(), "tcp", addr)
				}
			}
			body(t, p, e, func() (*party, error) {
				c, err := open()
				if err != nil {
					return nil, err
				}
				t.Cleanup(func() { _ = c.Close() })
				if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
					t.Fatal(err)
				}
				return &party{t, c, bufio.NewReader(c)}, nil
			})
		})
	}
}

func (c *party) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Fatalf("say %q: %v", line, err)
	}
}

func (c *party) hears(want string) {
	c.t.Helper()
	if got, err := c.r.ReadString('\n'); got != want+"\n" || err != nil {
		c.t.Fatalf("heard %q, %v, want %q", got, err, want)
	}
}

// hearsNothing checks that nothing arrives for a while.
func (c *party) hearsNothing() {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		c.t.Fatal(err)
	}
	got, err := c.r.ReadString('\n')
	if e, ok := errors.AsType[net.Error](err); !ok || !e.Timeout() {
		c.t.Fatalf("heard %q, %v, want nothing", got, err)
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		c.t.Fatal(err)
	}
}

// isCut checks that the connection is over.
func (c *party) isCut() {
	c.t.Helper()
	got, err := c.r.ReadString('\n')
	if e, ok := errors.AsType[net.Error](err); err == nil || ok && e.Timeout() {
		c.t.Fatalf("read %q, %v, want the end of the connection", got, err)
	}
}

func (e *echo) gets(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-e.heard:
		if got != want+"\n" {
			t.Fatalf("the server got %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("the server did not get %q", want)
	}
}

func must(t *testing.T, dial func() (*party, error)) *party {
	t.Helper()
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestProxyForwardsAndCuts(t *testing.T) {
	ways(t, func(t *testing.T, p *faultproxy.Proxy, _ *echo, dial func() (*party, error)) {
		a, b := must(t, dial), must(t, dial)
		for _, c := range []*party{a, b} {
			c.say("hello")
			c.hears("hello")
		}
		if n := p.Cut(); n != 2 {
			t.Errorf("Cut = %d, want 2", n)
		}
		a.isCut()
		b.isCut()
		c := must(t, dial)
		c.say("again")
		c.hears("again")
	})
}

func TestProxyRejectsOnlyNewConnections(t *testing.T) {
	ways(t, func(t *testing.T, p *faultproxy.Proxy, _ *echo, dial func() (*party, error)) {
		old := must(t, dial)
		old.say("one")
		old.hears("one")
		p.Refuse(true)
		if c, err := dial(); err == nil {
			c.isCut()
		} else if !errors.Is(err, faultproxy.ErrRefused) {
			t.Errorf("Dial = %v, want %v", err, faultproxy.ErrRefused)
		}
		old.say("two")
		old.hears("two")
		p.Heal()
		must(t, dial).say("three")
	})
}

func TestSwallowedAnswersCutTheConnection(t *testing.T) {
	ways(t, func(t *testing.T, p *faultproxy.Proxy, e *echo, dial func() (*party, error)) {
		c := must(t, dial)
		p.Swallow(faultproxy.ToClient, true)
		c.say("publish")
		e.gets(t, "publish")
		c.hearsNothing()
		p.Swallow(faultproxy.ToClient, false)
		c.isCut()
	})
}

func TestSwallowedRequestsNeverArrive(t *testing.T) {
	ways(t, func(t *testing.T, p *faultproxy.Proxy, e *echo, dial func() (*party, error)) {
		c, other := must(t, dial), must(t, dial)
		p.Swallow(faultproxy.ToServer, true)
		c.say("publish")
		c.hearsNothing()
		p.Swallow(faultproxy.ToServer, false)
		c.isCut()
		other.say("mine was not swallowed")
		e.gets(t, "mine was not swallowed") // and not what was
	})
}

func TestHeldBytesArriveLater(t *testing.T) {
	ways(t, func(t *testing.T, p *faultproxy.Proxy, e *echo, dial func() (*party, error)) {
		c := must(t, dial)
		p.Hold(faultproxy.ToServer, true)
		c.say("one")
		c.say("two")
		c.hearsNothing()
		p.Hold(faultproxy.ToServer, false)
		e.gets(t, "one")
		e.gets(t, "two")
		c.hears("one")
	})
}

func TestProxyDelaysAndThrottles(t *testing.T) {
	ways(t, func(t *testing.T, p *faultproxy.Proxy, _ *echo, dial func() (*party, error)) {
		c := must(t, dial)
		p.Delay(100 * time.Millisecond)
		began := time.Now()
		c.say("there and back")
		c.hears("there and back")
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("a round trip took %v, want twice the delay", took)
		}
		p.Delay(0)
		p.Throttle(100)
		began = time.Now()
		for range 3 {
			c.say("123456789")
			c.hears("123456789")
		}
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("30 bytes at 100 a second took %v", took)
		}
	})
}

func TestSeveredProxyRejectsEverything(t *testing.T) {
	e, p := newEcho(t), faultproxy.New()
	c, err := p.Dial("tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	p.Sever()
	p.Heal()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a severed connection still works")
	}
	p.Close()
	p.Close()
	if _, err := p.Dial("tcp", e.addr); !errors.Is(err, faultproxy.ErrRefused) {
		t.Errorf("Dial = %v", err)
	}
	if _, err := p.Listen(context.Background(), "127.0.0.1:0", e.addr); !errors.Is(err, faultproxy.ErrRefused) {
		t.Errorf("Listen = %v", err)
	}
	if _, err := faultproxy.New().Listen(context.Background(), "127.0.0.1:0"); err == nil {
		t.Error("Listen without a target succeeds")
	}
	if _, err := faultproxy.New().Dial("tcp", "127.0.0.1:1"); err == nil {
		t.Error("Dial to a closed port succeeds")
	}
}
