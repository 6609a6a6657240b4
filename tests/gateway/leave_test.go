package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/gateway"
)

// stalling is a connection to NATS that stops after a number of bytes, once that is set.
type stalling struct {
	nats.InProcessConnProvider

	left             atomic.Int64 // bytes
	stalled, resumed chan struct{}
}

func (s *stalling) InProcessConn() (net.Conn, error) {
	c, err := s.InProcessConnProvider.InProcessConn()
	return stallingConn{c, s}, err
}

type stallingConn struct {
	net.Conn

	of *stalling
}

func (c stallingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if left := c.of.left.Add(-int64(n)); left <= 0 && left+int64(n) > 0 {
		close(c.of.stalled)
		<-c.of.resumed
	}
	return n, err
}

// TestAClientThatLeavesStopsTheVerification reads a journal over a connection that stalls in the middle.
func TestAClientThatLeavesStopsTheVerification(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		defer w.drive().Drain(w.T)
		way := &stalling{stalled: make(chan struct{}), resumed: make(chan struct{})}
		way.left.Store(1 << 40)
		nc, err := w.Server.Connect(func(o *nats.Options) error {
			way.InProcessConnProvider, o.InProcessServer = o.InProcessServer, way
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		c, err := client.Open(nc, "")
		if err != nil {
			t.Fatal(err)
		}
		metrics := prometheus.NewRegistry()
		g := w.gateway(func(cfg *gateway.Config) { cfg.Client, cfg.Metrics = c, metrics })
		id := g.open(map[string]any{})
		s, err := w.Client.Attach(w.Ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		for s.Head().Seq < 1000 {
			if _, err := s.RunText(w.Ctx, "More"); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(w.Ctx); err != nil {
			t.Fatal(err)
		}
		path := "/api/sessions/" + string(id) + "/verify"
		reads := func(path string) uint64 {
			before := nc.Stats().InBytes
			g.ok(http.MethodGet, path, nil)
			return nc.Stats().InBytes - before
		}
		first := reads("/api/sessions/" + string(id)) // it looks at the session first
		bytes := reads(path)
		if bytes < 2*first {
			t.Fatalf("%d bytes are read, and %d to look at the session", bytes, first)
		}
		way.left.Store(int64(bytes+first) / 2) //nolint:gosec // it is small
		ctx, leave := context.WithCancel(w.Ctx)
		left := make(chan error)
		go func() {
			_, err := g.send(http.MethodGet, path, nil, func(r *http.Request) { *r = *r.WithContext(ctx) }) //nolint:bodyclose // there is none
			left <- err
		}()
		<-way.stalled
		if n := value(t, metrics, "turnlog_gateway_requests"); n != 1 {
			t.Errorf("%v requests while it reads", n)
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the client has %v", err)
		}
		synctest.Wait()
		if n := value(t, metrics, "turnlog_gateway_requests"); n != 0 {
			t.Errorf("%v requests after the client has left", n)
		}
		close(way.resumed)
	})
}
