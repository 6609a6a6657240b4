package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// metrics counts the claims and calls of a worker. It implements worker.Observer. The
// labels include only the names of the worker's own tools, so models cannot add labels.
type metrics struct {
	claims    prometheus.Counter
	again     prometheus.Counter
	forged    prometheus.Counter
	settled   *prometheus.CounterVec
	running   *prometheus.GaugeVec
	calls     *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

var _ worker.Observer = (*metrics)(nil)

// newMetrics registers metrics that are all zero. Known label values exist from the start.
func newMetrics(r *prometheus.Registry) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "turnlog", Subsystem: "worker", Name: name, Help: help}
	}
	register := promauto.With(r)
	m := &metrics{
		claims: register.NewCounter(prometheus.CounterOpts(opts("claims_total", "Tasks that this worker claimed."))),
		again: register.NewCounter(prometheus.CounterOpts(opts("redeliveries_total",
			"Claims of tasks that were delivered before."))),
		forged: register.NewCounter(prometheus.CounterOpts(opts("forged_tasks_total",
			"Tasks that were removed because they lack a required driver signature."))),
		settled: register.NewCounterVec(prometheus.CounterOpts(opts("claims_settled_total",
			"Claims by outcome: reported, asked, lost, released, gone, unreported.")), []string{"fate"}),
		running: register.NewGaugeVec(prometheus.GaugeOpts(opts("running_calls", "Calls that are running now.")), []string{"tool"}),
		calls: register.NewCounterVec(prometheus.CounterOpts(opts("calls_total",
			"Calls that ran, by tool and status of their result.")), []string{"tool", "status"}),
		durations: register.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "turnlog", Subsystem: "worker", Name: "call_duration_seconds", Help: "Duration of calls.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), // 1 ms to 4 min
		}, []string{"tool"}),
	}
	for _, f := range []worker.Fate{worker.Reported, worker.Asked, worker.Lost, worker.Released, worker.Gone, worker.Unreported} {
		m.settled.WithLabelValues(string(f))
	}
	return m
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

// Forged implements worker.Observer.
func (m *metrics) Forged() { m.forged.Inc() }
