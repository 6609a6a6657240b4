package actor

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
)

// offers is what the cell's workers offer now, a source per queue.
type offers struct {
	view    *jetstream.CatalogView
	log     *zap.Logger
	current atomic.Pointer[offered]
}

// offered is one state of the offers, with the catalogs that were made of it.
type offered struct {
	sources   []tool.Source
	verifiers string // the first queue, by name, whose workers run verifiers; "": none does

	mu       sync.Mutex // guards catalogs
	catalogs map[string]*engine.Catalog
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

// refresh groups the offers by queue: workers of one queue stand in for each
// other, and the first one's spec of a tool counts.
func (o *offers) refresh() {
	next := &offered{catalogs: make(map[string]*engine.Catalog)}
	queues := make(map[string]*queueTools)
	for _, offer := range o.view.Snapshot() {
		q, known := queues[offer.Queue]
		if !known {
			q = &queueTools{queue: offer.Queue, names: make(map[string]bool)}
			queues[offer.Queue] = q
			next.sources = append(next.sources, q)
		}
		for _, spec := range offer.Tools {
			if spec.Name == engine.GateTool {
				next.verifiers = min(cmp.Or(next.verifiers, offer.Queue), offer.Queue)
				continue
			}
			t, err := engine.Remote(spec)
			if err != nil {
				o.log.Warn("tool left out", zap.String("worker", offer.Worker), zap.Error(err))
				continue
			}
			q.add(t)
		}
	}
	o.current.Store(next)
}

// verifiers is the queue of the workers that run verifiers, "" if there are none.
func (o *offers) verifiers() string { return o.current.Load().verifiers }

// catalog is what a session of that agent may use of the offers.
func (o *offers) catalog(ctx context.Context, allowed []string, with *agentRuntime) (*engine.Catalog, error) {
	now := o.current.Load()
	key := "*"
	if allowed != nil {
		key = strings.Join(allowed, "\x00")
	}
	key += with.terms
	now.mu.Lock()
	defer now.mu.Unlock()
	if c, ok := now.catalogs[key]; ok {
		return c, nil
	}
	byName := func(source string) string { return source }
	c, err := engine.NewCatalog(ctx, now.under(with.Terms), tool.FirstWins, allowed, byName)
	if err != nil {
		return nil, err
	}
	now.catalogs[key] = c
	return c, nil
}

// under are the sources with what an agent says of their tools.
func (o *offered) under(terms []tool.Terms) []tool.Source {
	if len(terms) == 0 {
		return o.sources
	}
	out := make([]tool.Source, len(o.sources))
	for i, s := range o.sources {
		out[i] = tool.Under(s, terms...)
	}
	return out
}

// queueTools is what the workers of one queue offer.
type queueTools struct {
	queue string
	tools []tool.Tool
	names map[string]bool
}

// Name is the queue's.
func (q *queueTools) Name() string { return q.queue }

// Tools lists what was offered.
func (q *queueTools) Tools(context.Context) ([]tool.Tool, error) { return q.tools, nil }

func (q *queueTools) add(t tool.Tool) {
	if name := t.Spec().Name; !q.names[name] {
		q.names[name] = true
		q.tools = append(q.tools, t)
	}
}
