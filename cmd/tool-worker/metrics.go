package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// metrics counts what a worker does. It implements worker.Observer. Names of tools
// are labels: they are the worker's own, never what a model made up.
type metrics struct {
	claims    prometheus.Counter
	again     prometheus.Counter
	settled   *prometheus.CounterVec
	running   *prometheus.GaugeVec
	calls     *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

var _ worker.Observer = (*metrics)(nil)

// newMetrics returns metrics that are all zero. Known label values exist from the start.
func newMetrics() *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "turnlog", Subsystem: "worker", Name: name, Help: help}
	}
	m := &metrics{
		claims: prometheus.NewCounter(prometheus.CounterOpts(opts("claims_total", "Tasks that this worker claimed."))),
		again: prometheus.NewCounter(prometheus.CounterOpts(opts("redeliveries_total",
			"Claims of tasks that another worker had been given before."))),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts(opts("claims_settled_total",
			"Claims by what became of them: reported, asked, lost, released, gone, unreported.")), []string{"fate"}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("running_calls", "Calls that run now.")), []string{"tool"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts(opts("calls_total",
			"Calls that ran, by tool and status of their result.")), []string{"tool", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "turnlog", Subsystem: "worker", Name: "call_duration_seconds", Help: "How long calls ran.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), // 1 ms to 4 min
		}, []string{"tool"}),
	}
	for _, f := range []worker.Fate{worker.Reported, worker.Asked, worker.Lost, worker.Released, worker.Gone, worker.Unreported} {
		m.settled.WithLabelValues(string(f))
	}
	return m
}

func (m *metrics) register(r *prometheus.Registry) {
	r.MustRegister(m.claims, m.again, m.settled, m.running, m.calls, m.durations)
}

// Claimed implements worker.Observer.
func (m *metrics) Claimed(_ task.Task, delivery int) {
	m.claims.Inc()
	if delivery > 1 {
		m.again.Inc()
	}
}

// Started implements worker.Observer.
func (m *metrics) Started(t task.Task) { m.running.WithLabelValues(t.Tool).Inc() }

// Finished implements worker.Observer.
func (m *metrics) Finished(t task.Task, r tool.Result) {
	m.running.WithLabelValues(t.Tool).Dec()
	m.calls.WithLabelValues(t.Tool, string(r.Result.Status)).Inc()
	m.durations.WithLabelValues(t.Tool).Observe(r.Duration.Seconds())
}

// Settled implements worker.Observer.
func (m *metrics) Settled(_ task.Task, f worker.Fate) { m.settled.WithLabelValues(string(f)).Inc() }
