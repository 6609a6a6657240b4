package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnlog/turnlog/actor"
)

// metrics counts what a node does. It implements actor.Metrics.
type metrics struct {
	taken    prometheus.Counter
	left     *prometheus.CounterVec
	commands *prometheus.CounterVec
	effects  *prometheus.CounterVec
	events   prometheus.Counter
	appends  prometheus.Histogram
}

var _ actor.Metrics = (*metrics)(nil)

// newMetrics returns metrics that are all zero. Known label values exist from the start.
func newMetrics() *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "turnlog", Subsystem: "node", Name: name, Help: help}
	}
	m := &metrics{
		taken: prometheus.NewCounter(counter("sessions_taken_total", "Sessions that this node took.")),
		left: prometheus.NewCounterVec(counter("sessions_left_total",
			"Sessions that this node left, by how: parked, drained, handed, fenced, lost, broken."), []string{"how"}),
		commands: prometheus.NewCounterVec(counter("commands_total",
			"Commands handled, by name and outcome: accepted, ignored, refused, passed_over, misplaced, forged."), []string{"command", "outcome"}),
		effects: prometheus.NewCounterVec(counter("effects_total", "Effects started, by kind: model, tool."), []string{"kind"}),
		events:  prometheus.NewCounter(counter("events_total", "Events recorded.")),
		appends: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "turnlog", Subsystem: "node", Name: "append_duration_seconds", Help: "How long an entry took to be recorded.",
			Buckets: prometheus.ExponentialBuckets(25e-6, 2, 16), // 25 µs to 0.8 s
		}),
	}
	for _, how := range []string{"parked", "drained", "handed", "fenced", "lost", "broken"} {
		m.left.WithLabelValues(how)
	}
	for _, kind := range []string{"model", "tool"} {
		m.effects.WithLabelValues(kind)
	}
	return m
}

// register registers the metrics, and a gauge of the sessions that the node holds.
func (m *metrics) register(r *prometheus.Registry, node *actor.Node) {
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "turnlog", Subsystem: "node", Name: "sessions", Help: "Sessions that this node holds now.",
	}, func() float64 { return float64(node.Sessions()) })
	r.MustRegister(held, m.taken, m.left, m.commands, m.effects, m.events, m.appends)
}

// SessionTaken implements actor.Metrics.
func (m *metrics) SessionTaken() { m.taken.Inc() }

// SessionLeft implements actor.Metrics.
func (m *metrics) SessionLeft(how string) { m.left.WithLabelValues(how).Inc() }

// CommandHandled implements actor.Metrics.
func (m *metrics) CommandHandled(name, outcome string) {
	m.commands.WithLabelValues(name, outcome).Inc()
}

// EntryAppended implements actor.Metrics.
func (m *metrics) EntryAppended(events int, took time.Duration) {
	m.events.Add(float64(events))
	m.appends.Observe(took.Seconds())
}

// EffectStarted implements actor.Metrics.
func (m *metrics) EffectStarted(kind string) { m.effects.WithLabelValues(kind).Inc() }
