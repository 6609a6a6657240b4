// Package ops serves the health, readiness and metrics of a long-running program over
// HTTP.
//
// It is off unless an address is given, or the environment says that metrics are exported
// (package otlp), and the program does not depend on it. Each program has its own registry
// of metrics, so two programs in one process do not share a global one.
//
//	/healthz  200 while the process answers
//	/readyz   200 if it can do its work, otherwise 503 and why
//	/metrics  for Prometheus
//
// The program owns the [Server] and runs it with [Server.Run]. The endpoints expose no
// secrets and have no authentication: use an address that only operators can reach.
package ops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/cli/otlp"
)

// AddressFlag adds the flag --http to cmd; empty is off.
func AddressFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("http", "", "serve /healthz, /readyz and /metrics at this `address`, such as 127.0.0.1:8080; default: off")
}

// NewRegistry returns a registry with the metrics of the process and of Go's runtime.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return r
}

// Server serves the endpoints. A nil Server is off.
type Server struct {
	log      *zap.Logger
	listener net.Listener // nil: it only exports metrics
	http     *http.Server
	exports  otlp.Stop // of metrics; nil: it only serves
}

// Time limits of requests, and of open requests at shutdown.
const (
	requestTimeout  = 10 * time.Second
	shutdownTimeout = time.Second
)

// Listen listens at address, unless that is empty, and exports metrics if the environment says so. Without either it returns
// nil. ready returns why the program cannot do its work, or nil.
func Listen(ctx context.Context, address string, registry *prometheus.Registry, ready func() error, log *zap.Logger) (*Server, error) {
	exports, err := otlp.ExportMetrics(ctx, registry, log)
	switch {
	case err != nil:
		return nil, fmt.Errorf("metrics: %w", err)
	case address == "" && exports == nil:
		return nil, nil //nolint:nilnil // a nil server is off
	case address == "":
		return &Server{log: log, exports: exports}, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve http at %s: %w: use a free address of this machine, like 127.0.0.1:8080", address, err)
	}
	log = log.Named("http")
	log.Info("http endpoints served", zap.Stringer("address", l.Addr()))
	return &Server{log: log, listener: l, exports: exports, http: &http.Server{
		Handler:           handler(registry, ready),
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		ErrorLog:          zap.NewStdLog(log),
	}}, nil
}

func handler(registry *prometheus.Registry, ready func() error) http.Handler {
	mux := http.NewServeMux()
	healthy := func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") }
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		healthy(w, r)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}

// Address returns where the server listens, or "" if it is off.
func (s *Server) Address() string {
	if s == nil || s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	if s != nil && s.exports != nil {
		defer s.export(ctx)
	}
	if s == nil || s.listener == nil {
		<-ctx.Done()
		return nil
	}
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve http at %s: %w", s.Address(), err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.Warn("http requests cut off", zap.Error(errors.Join(err, s.http.Close())))
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http at %s: %w", s.Address(), err)
	}
	return nil
}

// export exports the metrics for the last time.
func (s *Server) export(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	_ = s.exports(ctx) // errors are logged
}
