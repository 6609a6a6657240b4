package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// metrics counts the sessions, commands and effects of a node. It implements actor.Metrics.
type metrics struct {
	taken    prometheus.Counter
	left     *prometheus.CounterVec
	commands *prometheus.CounterVec
	effects  *prometheus.CounterVec
	events   prometheus.Counter
	appends  prometheus.Histogram
	over     prometheus.Counter
	turns    *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	cost     *prometheus.CounterVec
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
			"Sessions that this node gave up, by reason: parked, drained, handed, fenced, lost, broken."), []string{"how"}),
		commands: register.NewCounterVec(counter("commands_total",
			"Commands handled, by name and outcome: accepted, ignored, refused, passed_over, misplaced, forged."), []string{"command", "outcome"}),
		effects: register.NewCounterVec(counter("effects_total", "Effects started, by kind: model, tool."), []string{"kind"}),
		events:  register.NewCounter(counter("events_total", "Events recorded.")),
		appends: register.NewHistogram(prometheus.HistogramOpts{
			Namespace: "turnlog", Subsystem: "node", Name: "append_duration_seconds", Help: "Time to record an entry.",
			Buckets: prometheus.ExponentialBuckets(25e-6, 2, 16), // 25 µs to 0.8 s
		}),
	}
	m.over = register.NewCounter(counter("takeovers_total", "Sessions that this node took over from a driver that was lost or stopped in the middle of a turn."))
	m.turns = register.NewCounterVec(counter("turns_total", "Turns that ended, by finish reason."), []string{"reason"})
	m.tokens = register.NewCounterVec(counter("tokens_total", "Tokens of models, by kind: input, output. Sessions of sub-agents count once."), []string{"kind"})
	m.cost = register.NewCounterVec(counter("cost_total", "Cost of model calls, by currency, in its units; only for models with known prices."), []string{"currency"})
	for _, kind := range []string{"input", "output"} {
		m.tokens.WithLabelValues(kind)
	}
	for _, reason := range []content.FinishReason{content.Completed, content.Errored, content.Cancelled, content.Limit} {
		m.turns.WithLabelValues(string(reason))
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
func (m *metrics) EntryAppended(e events.Entry, over bool, took time.Duration) {
	m.events.Add(float64(len(e.Events)))
	m.appends.Observe(took.Seconds())
	if over {
		m.over.Inc()
	}
	for _, ev := range e.Events {
		switch ev := any(ev).(type) {
		case events.TurnFinished:
			m.turns.WithLabelValues(string(ev.FinishReason)).Inc()
		case events.UsageUpdated:
			if u := ev.Own(); u != (content.Usage{}) {
				m.tokens.WithLabelValues("input").Add(float64(u.InputTokens))
				m.tokens.WithLabelValues("output").Add(float64(u.OutputTokens))
				if u.CostMicros > 0 {
					m.cost.WithLabelValues(u.Currency).Add(float64(u.CostMicros) / 1e6)
				}
			}
		}
	}
}

// EffectStarted implements actor.Metrics.
func (m *metrics) EffectStarted(kind string) { m.effects.WithLabelValues(kind).Inc() }
