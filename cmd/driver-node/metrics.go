package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/turnlog/turnlog/actor"
)

// metrics counts the sessions, commands and effects of a node. It implements actor.Metrics.
type metrics struct {
	taken    prometheus.Counter
	left     *prometheus.CounterVec
	commands *prometheus.CounterVec
	effects  *prometheus.CounterVec
	events   prometheus.Counter
	appends  prometheus.Histogram
}

var _ actor.Metrics = (*metrics)(nil)

// newMetrics registers metrics that are all zero. Known label values exist from the start.
func newMetrics(r *prometheus.Registry) *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "turnlog", Subsystem: "node", Name: name, Help: help}
	}
	register := promauto.With(r)
	m := &metrics{
		taken: register.NewCounter(counter("sessions_taken_total", "Sessions that this node took.")),
		left: register.NewCounterVec(counter("sessions_left_total",
			"Sessions that this node left, by how: parked, drained, handed, fenced, lost, broken."), []string{"how"}),
		commands: register.NewCounterVec(counter("commands_total",
			"Commands handled, by name and outcome: accepted, ignored, refused, passed_over, misplaced, forged."), []string{"command", "outcome"}),
		effects: register.NewCounterVec(counter("effects_total", "Effects started, by kind: model, tool."), []string{"kind"}),
		events:  register.NewCounter(counter("events_total", "Events recorded.")),
		appends: register.NewHistogram(prometheus.HistogramOpts{
			Namespace: "turnlog", Subsystem: "node", Name: "append_duration_seconds", Help: "Time to record an entry.",
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

// registerSessions registers the gauge of the sessions that the node holds.
func registerSessions(r *prometheus.Registry, node *actor.Node) {
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "turnlog", Subsystem: "node", Name: "sessions", Help: "Sessions that this node holds now.",
	}, func() float64 { return float64(node.Sessions()) })
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
