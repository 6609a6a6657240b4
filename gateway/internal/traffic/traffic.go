// Package traffic measures the requests of a gateway's clients.
//
// A route is the pattern in the API, never the path of a request. So the number of metrics depends only on the number of
// routes, not on what clients send.
package traffic

import (
	"cmp"
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the metrics of one gateway.
type Metrics struct {
	Streams prometheus.Gauge   // open streams of sessions
	Slow    prometheus.Counter // readers of streams that were too slow

	open     prometheus.Gauge
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// New returns metrics and registers them, unless the registerer is nil.
func New(r prometheus.Registerer) *Metrics {
	with := promauto.With(r)
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "turnlog", Subsystem: "gateway", Name: name, Help: help}
	}
	return &Metrics{
		Streams: with.NewGauge(prometheus.GaugeOpts(opts("streams", "Streams of sessions that are open now."))),
		Slow: with.NewCounter(prometheus.CounterOpts(opts("slow_readers_total",
			"Stream readers that were too slow and had to reconnect, or were cut off."))),
		open: with.NewGauge(prometheus.GaugeOpts(opts("requests", "Requests that are open now, including streams."))),
		requests: with.NewCounterVec(prometheus.CounterOpts(opts("requests_total",
			"Requests that ended, by route and status.")), []string{"route", "code"}),
		duration: with.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "turnlog", Subsystem: "gateway", Name: "response_duration_seconds",
			Help:    "Time from a request to the start of its response, by route; includes the turn if the client waits for one.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 4, 9), // 1 ms to 65 s
		}, []string{"route"}),
	}
}

// Routes finds the route of a request, like http.ServeMux.
type Routes interface {
	// Handler returns the pattern of the route, or "".
	Handler(r *http.Request) (h http.Handler, pattern string)
}

// Measure measures the requests of a handler. It looks up the route of each request once.
func (m *Metrics) Measure(routes Routes, next http.Handler) http.Handler {
	type routeKey struct{}
	route := promhttp.WithLabelFromCtx("route", func(ctx context.Context) string {
		pattern, _ := ctx.Value(routeKey{}).(string)
		return cmp.Or(pattern, "other")
	})
	next = promhttp.InstrumentHandlerCounter(m.requests, next, route)
	next = promhttp.InstrumentHandlerTimeToWriteHeader(m.duration, next, route)
	return promhttp.InstrumentHandlerInFlight(m.open, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := routes.Handler(r)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), routeKey{}, pattern)))
	}))
}
