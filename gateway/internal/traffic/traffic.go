// Package traffic measures what a gateway does for its clients.
//
// The one idea: a route is the pattern of the API, never the path of a request, so there are as many numbers as there are
// routes, whatever clients send.
package traffic

import (
	"cmp"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are those of one gateway.
type Metrics struct {
	Streams prometheus.Gauge   // open streams of sessions
	Slow    prometheus.Counter // readers of streams that were too slow

	open     prometheus.Gauge
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// New registers metrics; nil: nowhere.
func New(r prometheus.Registerer) *Metrics {
	with := promauto.With(r)
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "turnlog", Subsystem: "gateway", Name: name, Help: help}
	}
	return &Metrics{
		Streams: with.NewGauge(prometheus.GaugeOpts(opts("streams", "Streams of sessions that are open now."))),
		Slow: with.NewCounter(prometheus.CounterOpts(opts("slow_readers_total",
			"Readers of streams that were too slow, and were told to reconnect or cut off."))),
		open: with.NewGauge(prometheus.GaugeOpts(opts("requests", "Requests that are open now, with those that are streams."))),
		requests: with.NewCounterVec(prometheus.CounterOpts(opts("requests_total",
			"Requests that ended, by route and status.")), []string{"route", "code"}),
		duration: with.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "turnlog", Subsystem: "gateway", Name: "response_duration_seconds",
			Help:    "Time from a request to the beginning of its response, by route; where a client waits for a turn, with the turn.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 4, 9), // 1 ms to 65 s
		}, []string{"route"}),
	}
}

// Measure measures the requests of a handler. mux has the routes.
func (m *Metrics) Measure(mux *http.ServeMux, next http.Handler) http.Handler {
	route := promhttp.WithLabelFromRequest("route", func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return cmp.Or(pattern, "other")
	})
	next = promhttp.InstrumentHandlerCounter(m.requests, next, route)
	next = promhttp.InstrumentHandlerTimeToWriteHeader(m.duration, next, route)
	return promhttp.InstrumentHandlerInFlight(m.open, next)
}
