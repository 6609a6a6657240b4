// Package ops serves over HTTP what operators and their systems ask of a program
// that runs for days: whether it lives, whether it is ready, and its metrics.
//
// The one idea: it is off unless an address is given, and it is nothing that the
// program needs; metrics are kept in a registry of the program's own, so two
// programs in one process do not meet in a global one.
//
//	/healthz  200 as long as the process answers
//	/readyz   200 when it can do its work, else 503 and why
//	/metrics  for Prometheus
//
// The program owns the [Server] and runs it with [Server.Run] until it is to end.
// The endpoints tell no secrets, and have no authentication: give an address that
// only the right people reach.
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
)

// AddressFlag adds the flag --http to cmd. Empty means that nothing is served.
func AddressFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("http", "", "serve /healthz, /readyz and /metrics at this `address`, like 127.0.0.1:8080; off if empty")
}

// NewRegistry returns a registry that knows of the process and of Go's runtime.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return r
}

// Server answers the endpoints. Nil is a server that is off.
type Server struct {
	log      *zap.Logger
	listener net.Listener
	http     *http.Server
}

// How long requests may take, and how long those under way have at the end.
const (
	requestTimeout  = 10 * time.Second
	shutdownTimeout = time.Second
)

// Listen begins to listen at address, or returns nil if that is empty. ready says
// why the program cannot do its work, or nil.
func Listen(ctx context.Context, address string, registry *prometheus.Registry, ready func() error, log *zap.Logger) (*Server, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // a nil server is one that is off
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve http at %s: %w: give an address of this machine that is free, like 127.0.0.1:8080", address, err)
	}
	log = log.Named("http")
	log.Info("http endpoints served", zap.Stringer("address", l.Addr()))
	return &Server{log: log, listener: l, http: &http.Server{
		Handler:           handler(registry, ready),
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		ErrorLog:          zap.NewStdLog(log),
	}}, nil
}

func handler(registry *prometheus.Registry, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		say(w, http.StatusOK, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // the client has gone
}

// Address is where the server listens, "" if it is off.
func (s *Server) Address() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	if s == nil {
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
