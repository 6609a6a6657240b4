package ops_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

// open returns a connected cell and its server.
func open(t *testing.T) (*cli.Cell, *embedded.Server) {
	t.Helper()
	srv := clitest.Serve(t)
	cell, nc := clitest.Open(t, srv)
	return &cli.Cell{Cell: cell, Conn: nc}, srv
}

// stopped returns a context that a signal ended.
func stopped(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithCancelCause(t.Context())
	stop(&cli.Interrupted{Signal: os.Interrupt})
	return ctx
}

func idle(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	cell, srv := open(t)
	var trouble atomic.Value
	registry := ops.NewRegistry()
	calls := prometheus.NewCounter(prometheus.CounterOpts{Name: "calls_total", Help: "Calls."})
	registry.MustRegister(calls)
	calls.Add(3)
	ready := func() error {
		if text, ok := trouble.Load().(string); ok && text != "" {
			return errors.New(text)
		}
		return nil
	}
	s, err := ops.Listen(t.Context(), "127.0.0.1:0", registry, cell, ready, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, cell, idle) }()
	base := "http://" + s.Address()

	if code, body := clitest.Get(t, base+"/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz = %d %q", code, body)
	}
	if code, body := clitest.Get(t, base+"/readyz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("readyz = %d %q", code, body)
	}
	trouble.Store("cut off")
	if code, body := clitest.Get(t, base+"/readyz"); code != http.StatusServiceUnavailable || body != "cut off\n" {
		t.Errorf("readyz = %d %q, want 503 and why", code, body)
	}
	if code, body := clitest.Get(t, base+"/metrics"); code != http.StatusOK || !strings.Contains(body, "calls_total 3") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("metrics = %d %q", code, body)
	}
	if code, _ := clitest.Get(t, base+"/"); code != http.StatusNotFound {
		t.Errorf("/ = %d, want 404", code)
	}
	trouble.Store("")
	lost := cell.Conn.StatusChanged(nats.RECONNECTING)
	srv.Close()
	<-lost
	if code, body := clitest.Get(t, base+"/readyz"); code != http.StatusServiceUnavailable || body != "not connected to NATS: RECONNECTING\n" {
		t.Errorf("readyz without a server = %d %q, want 503 and why", code, body)
	}
	stop(&cli.Interrupted{Signal: os.Interrupt})
	if err := <-ended; err != nil {
		t.Errorf("Serve = %v", err)
	}
}

func TestAddressInUseIsRefused(t *testing.T) {
	t.Parallel()
	cell, _ := open(t)
	first, err := ops.Listen(t.Context(), "127.0.0.1:0", ops.NewRegistry(), cell, nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Serve(stopped(t), cell, idle) }()
	if s, err := ops.Listen(t.Context(), first.Address(), ops.NewRegistry(), cell, nil, zap.NewNop()); err == nil || s != nil {
		t.Errorf("Listen = %v, %v, want an error", s, err)
	}
}

func TestOffByDefault(t *testing.T) {
	t.Parallel()
	address := ops.AddressFlag(&cobra.Command{Use: "x"})
	cell, _ := open(t)
	s, err := ops.Listen(t.Context(), *address, nil, cell, nil, zap.NewNop())
	if err != nil || s.Address() != "" {
		t.Fatalf("Listen = %v, %v, want a server that is off", s, err)
	}
	if err := s.Serve(stopped(t), cell, idle); err != nil {
		t.Errorf("Serve = %v", err)
	}
}
