package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
)

// A server does not answer a denied request, so waiting for an answer would never end.
func TestADeniedRequestFailsAtOnce(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(forbidding(t), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 { // the second time is no old news
		err = c.Send(ctx, "s", "a", commands.AllowTools{Tools: []string{"x"}})
		if !errors.Is(err, ErrForbidden) || !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "turnlog.cmd.s.decide") {
			t.Fatalf("Send = %v, want ErrForbidden", err)
		}
	}
}

// The server logs each denied request.
func TestAnInboxThatMayNotBeReadIsAskedForOnce(t *testing.T) {
	t.Parallel()
	var denied atomic.Int32
	nc, err := nats.Connect(forbidding(t), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { denied.Add(1) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.InputPending(t.Context(), "s"); !errors.Is(err, ErrForbidden) {
		t.Errorf("InputPending = %v, want ErrForbidden", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil || denied.Load() != 1 {
		t.Errorf("%d requests were denied (%v)", denied.Load(), err)
	}
}

// forbidding starts a stand-in for a NATS server that denies every publish.
func forbidding(t *testing.T) (url string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "INFO {\"server_id\":\"x\",\"version\":\"2.12.0\",\"headers\":true,\"max_payload\":1048576}\r\n")
		for r := bufio.NewScanner(conn); r.Scan(); {
			verb, rest, _ := strings.Cut(r.Text(), " ")
			subject, _, _ := strings.Cut(rest, " ")
			switch verb {
			case "PING":
				_, _ = fmt.Fprintf(conn, "PONG\r\n")
			case "PUB", "HPUB":
				_, _ = fmt.Fprintf(conn, "-ERR 'Permissions Violation for Publish to %q'\r\n", subject)
			}
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return "nats://" + l.Addr().String()
}
