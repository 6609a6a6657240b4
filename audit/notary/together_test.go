package notary

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// cut is a connection that ends at the n-th write to the log, before or after the server has it.
type cut struct {
	net.Conn

	left  *atomic.Int64
	after bool
}

func (c cut) Write(p []byte) (int, error) {
	writes := bytes.Count(p, []byte("PUB $KV.TURNLOG_CHECKPOINTS.")) + bytes.Count(p, []byte("PUB $O.TURNLOG_LOG."))
	if writes == 0 || c.left.Add(int64(-writes)) > 0 {
		return c.Conn.Write(p)
	}
	if c.after {
		_, _ = c.Conn.Write(p)
	}
	_ = c.Conn.Close()
	return 0, net.ErrClosed
}

// cutAt returns an option for such a connection.
func cutAt(n int, after bool) nats.Option {
	left := &atomic.Int64{}
	left.Store(int64(n))
	return over(func(c net.Conn) net.Conn { return cut{c, left, after} })
}

// over returns an option for a wrapped connection, which does not reconnect.
func over(wrap func(net.Conn) net.Conn) nats.Option {
	return func(o *nats.Options) error {
		inner := o.InProcessServer
		o.InProcessServer = dialer(func() (net.Conn, error) {
			conn, err := inner.InProcessConn()
			return wrap(conn), err
		})
		o.AllowReconnect = false
		return nil
	}
}

// overtaken is a connection on which something happens after the n-th read of the log.
type overtaken struct {
	net.Conn

	left *atomic.Int64
	once sync.Once
	by   func()
}

func (o *overtaken) Write(p []byte) (int, error) {
	o.left.Add(-int64(bytes.Count(p, []byte("PUB $JS.API.STREAM.MSG.GET.KV_TURNLOG_CHECKPOINTS "))))
	return o.Conn.Write(p)
}

// Read holds the answer back, since a client that writes is locked.
func (o *overtaken) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	if o.left.Load() <= 0 {
		o.once.Do(o.by)
	}
	return n, err
}

type dialer func() (net.Conn, error)

func (f dialer) InProcessConn() (net.Conn, error) { return f() }

// TestANotaryMayStopAtEachWrite cuts a notary off at each of its writes, while it fills a bundle. The next one
// continues the same tree, and nothing is missing.
func TestANotaryMayStopAtEachWrite(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			ended := false
			t.Run(fmt.Sprintf("write %d, stored %t", n, after), func(t *testing.T) {
				in(t, func(t *testing.T, d *deployment) {
					d.fill(248)
					d.rest(0, 4)
					d.settle()
					d.rest(2, 10)
					err := d.run(d.notary(d.connect(cutAt(n, after))), time.Minute)
					ended = err == nil
					d.rest(0, 1)
					d.settle()
					d.complete()
				})
			})
			if ended || t.Failed() {
				if n < 15 {
					t.Errorf("only %d writes were cut", n-1)
				}
				break
			}
		}
	}
}

// TestANotaryMayReadWhileAnotherWrites lets another notary log and publish after each of the reads of a notary.
func TestANotaryMayReadWhileAnotherWrites(t *testing.T) {
	t.Parallel()
	for n := int64(1); ; n++ {
		var left atomic.Int64
		left.Store(n)
		t.Run(fmt.Sprintf("read %d", n), func(t *testing.T) {
			in(t, func(t *testing.T, d *deployment) {
				d.rest(0, 4)
				d.settle()
				d.rest(2, 8)
				other := d.notary(d.connect())
				write := func() { must(t, d.run(other, 3*gather)) }
				one := d.notary(d.connect(over(func(c net.Conn) net.Conn { return &overtaken{Conn: c, left: &left, by: write} })))
				must(t, d.run(one, Within))
				d.complete()
			})
		})
		if left.Load() > 0 || t.Failed() {
			if n < 4 {
				t.Errorf("only after %d reads another notary wrote", n-1)
			}
			break
		}
	}
}

func TestNotariesWriteOneTreeTogether(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 3)
		for range cap(done) {
			n := d.notary(d.connect())
			go func() { done <- n.Run(ctx) }()
		}
		for i := range 30 {
			d.rest(i*10, i*10+25)
			<-time.After(700 * time.Millisecond)
		}
		<-time.After(2 * retry)
		cancel()
		for range cap(done) {
			must(t, <-done)
		}
		d.complete()
	})
}
