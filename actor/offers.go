package actor

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// offers are the tools that the cell's workers offer now, with one source per queue.
type offers struct {
	view    *jetstream.CatalogView
	log     *zap.Logger
	current atomic.Pointer[offered]
}

// offered is one state of the offers, with the catalogs made from it.
type offered struct {
	sources   []tool.Source
	verifiers string // the first queue, by name, whose workers run verifiers; "": none
	catalogs  cache[string, *engine.Catalog]
}

func newOffers(view *jetstream.CatalogView, log *zap.Logger) *offers {
	o := &offers{view: view, log: log}
	o.refresh()
	return o
}

func (o *offers) follow(ctx context.Context) error {
	for {
		select {
		case <-o.view.Changed():
			o.refresh()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refresh groups the offers by queue. Workers of one queue are interchangeable, so the first
// one's spec of a tool counts.
func (o *offers) refresh() {
	next := &offered{}
	queues := make(map[string]*queueTools)
	for _, offer := range o.view.Snapshot() {
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
