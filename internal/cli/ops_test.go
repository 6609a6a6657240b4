package cli_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/cli/ops"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

func TestEndpoints(t *testing.T) {
	t.Parallel()
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
	s, err := ops.Listen(t.Context(), "127.0.0.1:0", registry, ready, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
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
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestAddressInUseIsRefused(t *testing.T) {
	t.Parallel()
	first, err := ops.Listen(t.Context(), "127.0.0.1:0", ops.NewRegistry(), nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	defer func() { _ = first.Run(ctx) }()
	if s, err := ops.Listen(t.Context(), first.Address(), ops.NewRegistry(), nil, zap.NewNop()); err == nil || s != nil {
		t.Errorf("Listen = %v, %v, want an error", s, err)
	}
}

func TestOffByDefault(t *testing.T) {
	t.Parallel()
	address := ops.AddressFlag(&cobra.Command{Use: "x"})
	s, err := ops.Listen(t.Context(), *address, nil, nil, zap.NewNop())
	if err != nil || s.Address() != "" {
		t.Fatalf("Listen = %v, %v, want a server that is off", s, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run = %v", err)
	}
}

// Without an address, the program exports its metrics if the environment says so, for the last time at its end.
func TestMetricsAreExportedWithoutAnAddress(t *testing.T) {
	got := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_METRICS_EXPORTER", "otlp")
	s, err := ops.Listen(t.Context(), "", ops.NewRegistry(), nil, zap.NewNop())
	if err != nil || s.Address() != "" {
		t.Fatalf("Listen = %v, %v", s, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run = %v", err)
	}
	if path := <-got; path != "/v1/metrics" {
		t.Errorf("exported to %s", path)
	}
}

func TestAWrongExporterIsRefused(t *testing.T) {
	t.Setenv("OTEL_METRICS_EXPORTER", "console")
	if _, err := ops.Listen(t.Context(), "", ops.NewRegistry(), nil, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "only otlp and none") {
		t.Errorf("Listen = %v", err)
	}
}
