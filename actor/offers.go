package actor

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// workerAway is how long the tools of a worker stay in the catalog after it has left. A worker that
// restarts is back by then, and so is its replacement. Until then calls wait on their queue.
const workerAway = time.Minute

// offers are the tools that the cell's workers offer now, or did until recently, with one source per
// queue.
type offers struct {
	view    *jetstream.CatalogView
	log     *zap.Logger
	current atomic.Pointer[offered]

	// of the goroutine that refreshes
	last map[string]jetstream.Offer // of each worker
	left map[string]time.Time       // when those left that are away
}

// offered is one state of the offers, with the catalogs made from it.
type offered struct {
	sources   []tool.Source
	verifiers string // the first queue, by name, whose workers run verifiers; "": none
	catalogs  cache[string, *engine.Catalog]
}

func newOffers(view *jetstream.CatalogView, log *zap.Logger) *offers {
	o := &offers{view: view, log: log, last: make(map[string]jetstream.Offer), left: make(map[string]time.Time)}
	o.refresh()
	return o
}

func (o *offers) follow(ctx context.Context) error {
	for {
		var forget <-chan time.Time
		if len(o.left) > 0 {
			forget = time.After(workerAway / 4)
		}
		select {
		case <-o.view.Changed():
			o.refresh()
		case <-forget:
			o.refresh()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// standing returns the offers of the workers that are there, then those of the workers that left not
// long ago.
func (o *offers) standing() []jetstream.Offer {
	all := o.view.Snapshot()
	there := make(map[string]bool)
	for _, offer := range all {
		there[offer.Worker], o.last[offer.Worker] = true, offer
		delete(o.left, offer.Worker)
	}
	for _, worker := range slices.Sorted(maps.Keys(o.last)) {
		if there[worker] {
			continue
		}
		since, away := o.left[worker]
		switch {
		case !away:
			o.left[worker] = time.Now()
			o.log.Info("worker left: its tools stay for a while", zap.String("worker", worker), zap.Duration("for", workerAway))
		case time.Since(since) >= workerAway:
			delete(o.last, worker)
			delete(o.left, worker)
			continue
		}
		all = append(all, o.last[worker])
	}
	return all
}

// refresh groups the offers by queue. Workers of one queue are interchangeable, so the first
// one's spec of a tool counts.
func (o *offers) refresh() {
	next := &offered{}
	queues := make(map[string]*queueTools)
	for _, offer := range o.standing() {
		q, known := queues[offer.Queue]
		if !known {
			q = &queueTools{queue: offer.Queue}
			queues[offer.Queue] = q
			next.sources = append(next.sources, q)
		}
		for _, spec := range offer.Tools {
			if spec.Name == loop.VerifierTool {
				next.verifiers = min(cmp.Or(next.verifiers, offer.Queue), offer.Queue)
				continue
			}
			t, err := engine.Remote(spec)
			if err != nil {
				o.log.Warn("tool left out", zap.String("worker", offer.Worker), zap.Error(err))
				continue
			}
			q.tools = append(q.tools, t)
		}
	}
	o.current.Store(next)
}

// verifiers returns the queue of the workers that run verifiers, "" if there are none.
func (o *offers) verifiers() string { return o.current.Load().verifiers }

// catalog returns the offers that a session of that agent may use.
func (o *offers) catalog(ctx context.Context, allowed []string, with *agentRuntime) (*engine.Catalog, error) {
	now := o.current.Load()
	key := "*"
	if allowed != nil {
		key = strings.Join(allowed, "\x00")
	}
	return now.catalogs.get(key+with.terms, func() (*engine.Catalog, error) {
		sources := make([]tool.Source, len(now.sources))
		for i, s := range now.sources {
			sources[i] = tool.Under(s, with.Terms...)
		}
		return engine.NewCatalog(context.WithoutCancel(ctx), sources, tool.FirstWins, allowed, true)
	})
}

// queueTools are the tools that the workers of one queue offer; several may offer the same.
type queueTools struct {
	queue string
	tools []tool.Tool
}

// Name returns the queue's name.
func (q *queueTools) Name() string { return q.queue }

// Tools lists the offered tools.
func (q *queueTools) Tools(context.Context) ([]tool.Tool, error) { return q.tools, nil }
