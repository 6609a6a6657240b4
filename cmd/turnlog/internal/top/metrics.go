package top

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/turnlog/turnlog/content"
)

// metrics are the Prometheus metrics of a deployment.
type metrics struct {
	queues   map[string]*prometheus.GaugeVec // metrics of queues, by what they count
	sessions *prometheus.GaugeVec
	nodes    prometheus.Gauge
	lists    *prometheus.GaugeVec
	ages     *prometheus.GaugeVec
	lag      prometheus.Gauge
	failures prometheus.Counter

	mu    sync.Mutex
	known []string // names of queues
	err   error    // of the last read of the deployment
}

var errNoLook = errors.New("the deployment was not read yet")

// newMetrics registers the metrics. The counts are read at each scrape.
func newMetrics(r *prometheus.Registry, c *counter) *metrics {
	with := promauto.With(r)
	gauge := func(subsystem, name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "turnlog", Subsystem: subsystem, Name: name, Help: help}
	}
	m := &metrics{
		err: errNoLook, queues: make(map[string]*prometheus.GaugeVec),
		sessions: with.NewGaugeVec(gauge("", "sessions", "Sessions, by state: driven, waiting for a node, aside, parked."), []string{"state"}),
		nodes:    with.NewGauge(gauge("", "nodes", "Nodes that have a record.")),
		lists:    with.NewGaugeVec(gauge("", "undecided_sessions", "Sessions that wait for a person's decision, by kind: approval, dead_letter."), []string{"about"}),
		ages:     with.NewGaugeVec(gauge("", "undecided_oldest_seconds", "How long the first of these sessions has waited."), []string{"about"}),
		lag:      with.NewGauge(gauge("top", "lag_entries", "Entries of the journal that this process has not counted yet.")),
		failures: with.NewCounter(prometheus.CounterOpts(gauge("top", "failures_total", "Failed reads of the deployment."))),
	}
	for name, help := range map[string]string{
		"waiting_calls": "Calls that no worker has claimed.", "running_calls": "Calls that a worker has claimed.",
		"oldest_wait_seconds": "How long the oldest call has waited.", "workers": "Workers that offer tools.",
		"wanted_workers": "Workers needed to run all calls.",
	} {
		m.queues[name] = with.NewGaugeVec(gauge("queue", name, help), []string{"queue"})
	}
	counted := func(name, help string, labels prometheus.Labels, value func(doneCounts) float64) {
		with.NewCounterFunc(prometheus.CounterOpts{Namespace: "turnlog", Subsystem: "journal", Name: name, Help: help, ConstLabels: labels}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return value(c.done)
		})
	}
	counted("entries_total", "Entries since this process started.", nil, func(d doneCounts) float64 { return float64(d.Entries) })
	counted("takeovers_total", "Sessions that a node took over from a driver that did not park them.", nil, func(d doneCounts) float64 { return float64(d.Takeovers) })
	counted("cost_total", "Cost of model calls, in units of the deployment's currency.", nil, func(d doneCounts) float64 { return float64(d.Usage.CostMicros) / 1e6 })
	for kind, of := range map[string]func(content.Usage) int64{
		"input": func(u content.Usage) int64 { return u.InputTokens }, "output": func(u content.Usage) int64 { return u.OutputTokens },
	} {
		counted("tokens_total", "Tokens of models, by kind.", prometheus.Labels{"kind": kind}, func(d doneCounts) float64 { return float64(of(d.Usage)) })
	}
	for _, reason := range []content.FinishReason{content.Completed, content.Errored, content.Cancelled, content.Limit} {
		counted("turns_total", "Turns that ended, by finish reason.", prometheus.Labels{"reason": string(reason)}, func(d doneCounts) float64 { return float64(d.Turns[reason]) })
	}
	return m
}

// ready returns why the metrics are not up to date.
func (m *metrics) ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// set sets the gauges. After a failure they keep their values.
func (m *metrics) set(v view, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err = err; err != nil {
		m.failures.Inc()
		return
	}
	for _, q := range m.known { // a queue may have been removed
		for _, g := range m.queues {
			g.DeleteLabelValues(q)
		}
	}
	m.known = nil
	for _, q := range v.Queues {
		m.known = append(m.known, q.Queue)
		for name, value := range map[string]float64{
			"waiting_calls": float64(q.Waiting), "running_calls": float64(q.Running), "oldest_wait_seconds": q.Oldest.Seconds(),
			"workers": float64(q.Workers), "wanted_workers": float64(q.Wanted),
		} {
			m.queues[name].WithLabelValues(q.Queue).Set(value)
		}
	}
	for state, n := range map[string]int{"driven": v.Sessions.Driven, "waiting": v.Sessions.Waiting, "aside": v.Sessions.Aside, "parked": v.Sessions.Parked} {
		m.sessions.WithLabelValues(state).Set(float64(n))
	}
	m.nodes.Set(float64(v.Nodes))
	m.lag.Set(float64(v.Lag))
	for about, l := range map[string]struct {
		n   int
		old time.Duration
	}{"approval": {v.Approvals.Sessions, v.Approvals.Oldest}, "dead_letter": {v.DeadLetters.Sessions, v.DeadLetters.Oldest}} {
		m.lists.WithLabelValues(about).Set(float64(l.n))
		m.ages.WithLabelValues(about).Set(l.old.Seconds())
	}
}
