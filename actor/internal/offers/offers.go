// Package offers keeps the tools that a node's sessions can use: those of the cell's workers, and the node's
// own.
package offers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/internal/memo"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/sparselog"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// refreshEvery is how often the offers are read at most. A worker may change its own much faster.
const refreshEvery = 50 * time.Millisecond

// Offers are the tools that are offered now, or were until recently, with one source per queue. Only one
// goroutine may call Follow. The rest is safe for concurrent use.
type Offers struct {
	view    *jetstream.CatalogView
	local   *task.Local   // nil: the node has no tools of its own
	away    time.Duration // how long a node keeps the tools of a worker that left
	log     *zap.Logger
	sparse  *sparselog.Log
	current atomic.Pointer[offered]

	// These belong to the goroutine that refreshes.
	last     map[string]jetstream.Offer      // of each worker
	left     map[string]time.Time            // when each absent worker left
	compiled map[[sha256.Size]byte]tool.Tool // by the digest of the spec; nil: the spec does not compile
}

// offered is the offers at one time, with the catalogs made from them.
type offered struct {
	sources   []tool.Source
	manned    map[string]bool // the queues that have workers
	verifiers string          // the queue whose workers run verifiers: the node's own, or else the first by name; "": none
	catalogs  memo.Cache[string, *engine.Catalog]
}

// New returns what the view of the catalog and the node's own queue (nil for none) offer now. The tools of a
// worker that leaves are kept for a while.
func New(view *jetstream.CatalogView, local *task.Local, away time.Duration, log *zap.Logger, sparse *sparselog.Log) *Offers {
	o := &Offers{
		view: view, local: local, away: away, log: log, sparse: sparse,
		last: make(map[string]jetstream.Offer), left: make(map[string]time.Time),
	}
	if o.local != nil {
		select {
		case <-o.local.Changed(): // this change is read now; it must not delay the next
		default:
		}
	}
	o.refresh()
	return o
}

// Follow updates the offers until ctx ends, and returns the cause.
func (o *Offers) Follow(ctx context.Context) error {
	var local <-chan struct{}
	if o.local != nil {
		local = o.local.Changed()
	}
	for {
		var forget <-chan time.Time
		if len(o.left) > 0 {
			forget = time.After(o.away / 4)
		}
		select {
		case <-o.view.Changed():
			o.refresh()
		case <-local:
			o.refresh()
		case <-forget:
			o.refresh()
		case <-ctx.Done():
		}
		if !pause.For(ctx, refreshEvery) {
			return context.Cause(ctx)
		}
	}
}

// standing returns the node's own offer, then those of present workers, then those of workers that left
// recently. It also returns the queues that have workers. A worker that drains offers nothing, but still runs
// its calls.
func (o *Offers) standing() (all []jetstream.Offer, manned map[string]bool) {
	there, held := make(map[string]bool), 0
	manned = make(map[string]bool)
	if o.local != nil {
		all = append(all, jetstream.Offer{Queue: task.LocalQueue, Tools: o.local.Offered()})
	}
	for _, offer := range o.view.Snapshot() {
		if offer.Queue == task.LocalQueue {
			continue // another node's own tools
		}
		manned[offer.Queue] = true
		if len(offer.Tools) == 0 {
			continue
		}
		there[offer.Worker], o.last[offer.Worker] = true, offer
		delete(o.left, offer.Worker)
		all = append(all, offer)
		held += sizeOf(offer)
	}
	for _, worker := range slices.Sorted(maps.Keys(o.last)) {
		if there[worker] {
			continue
		}
		since, away := o.left[worker]
		switch {
		case !away:
			o.left[worker] = time.Now()
			o.log.Info("worker left, its tools stay listed for a while", zap.String("worker", worker), zap.Duration("for", o.away))
		case time.Since(since) >= o.away, held > maxStanding:
			delete(o.last, worker)
			delete(o.left, worker)
			continue
		}
		all = append(all, o.last[worker])
		held += sizeOf(o.last[worker])
	}
	return all, manned
}

func sizeOf(o jetstream.Offer) (n int) {
	for _, spec := range o.Tools {
		n += specSize(spec)
	}
	return n
}

func specSize(s tool.Spec) int {
	return 256 + len(s.Name) + len(s.Description) + len(s.InputSchema) + len(s.OutputSchema)
}

func (o *Offers) refresh() {
	all, manned := o.standing()
	next := o.group(all)
	next.manned = manned
	o.current.Store(next)
}

// group groups the offers by queue. Workers of one queue are interchangeable, so the first worker's spec of a
// tool is used, with the strictest effects that any of them declares: effects decide what runs without a
// question, and a worker chooses which queue it names. Tools beyond the limits are left out.
func (o *Offers) group(all []jetstream.Offer) *offered {
	next := &offered{}
	queues := make(map[string]*queueTools)
	for _, offer := range all {
		q, known := queues[offer.Queue]
		if !known {
			q = &queueTools{queue: offer.Queue, at: make(map[string]int)}
			queues[offer.Queue] = q
			next.sources = append(next.sources, q)
		}
		for _, spec := range offer.Tools {
			if spec.Name == loop.VerifierTool {
				if next.verifiers != task.LocalQueue {
					next.verifiers = min(cmp.Or(next.verifiers, offer.Queue), offer.Queue)
				}
			} else if !q.add(spec) {
				o.sparse.Line(o.log, zap.WarnLevel, "tool left out: its queue offers too many", zap.String("worker", offer.Worker), zap.String("tool", spec.Name))
			}
		}
	}
	o.compile(queues)
	return next
}

// compile compiles the tools that changed since it last ran.
func (o *Offers) compile(queues map[string]*queueTools) {
	compiled := make(map[[sha256.Size]byte]tool.Tool)
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		q := queues[name]
		for _, spec := range q.specs {
			text, _ := json.Marshal(spec) //nolint:errchkjson // a bad schema has no text, and does not compile
			key := sha256.Sum256(text)
			t, known := o.compiled[key]
			if !known {
				var err error
				if t, err = engine.Remote(spec); err != nil {
					o.sparse.Line(o.log, zap.WarnLevel, "tool left out", zap.String("queue", name), zap.Error(err))
				}
			}
			if compiled[key] = t; t != nil {
				q.tools = append(q.tools, t)
			}
		}
	}
	o.compiled = compiled
}

// Verifiers returns the queue of the workers that run verifiers. The node's own comes first. "": there is
// none.
func (o *Offers) Verifiers() string { return o.current.Load().verifiers }

// Manned reports whether a queue has a worker.
func (o *Offers) Manned(queue string) bool { return o.current.Load().manned[queue] }

// Catalog returns the offers that a session may use, under the terms of its agent. allowed lists the allowed
// tools; nil allows all. key identifies the terms.
func (o *Offers) Catalog(ctx context.Context, allowed []string, terms []tool.Terms, key string) (*engine.Catalog, error) {
	now := o.current.Load()
	names := "*"
	if allowed != nil {
		names = strings.Join(allowed, "\x00")
	}
	return now.catalogs.Get(names+key, func() (*engine.Catalog, error) {
		sources := make([]tool.Source, len(now.sources))
		for i, s := range now.sources {
			sources[i] = tool.Under(s, terms...)
		}
		return engine.NewCatalog(context.WithoutCancel(ctx), sources, tool.FirstWins, allowed, true)
	})
}

// Limits of what workers offer.
const (
	maxOffered      = 1024     // tools of one queue
	maxOfferedBytes = 16 << 20 // of their descriptions and schemas
	maxStanding     = 64 << 20 // bytes of all offers, beyond which the offers of workers that left are dropped
)

// queueTools are the tools that the workers of one queue offer. Several workers may offer the same tool.
type queueTools struct {
	queue string
	specs []tool.Spec
	at    map[string]int // the index of each tool in specs
	bytes int
	tools []tool.Tool // compiled
}

// add adds a tool that a worker offers. It returns false if the queue has no room for it.
func (q *queueTools) add(spec tool.Spec) bool {
	if i, known := q.at[spec.Name]; known {
		have := &q.specs[i]
		have.Effects, have.Writes = have.Effects.Or(spec.Effects), have.Writes || spec.Writes
		return true
	}
	size := specSize(spec)
	if len(q.specs) == maxOffered || q.bytes+size > maxOfferedBytes {
		return false
	}
	q.at[spec.Name] = len(q.specs)
	q.specs, q.bytes = append(q.specs, spec), q.bytes+size
	return true
}

// Name returns the queue's name.
func (q *queueTools) Name() string { return q.queue }

// Tools lists the offered tools.
func (q *queueTools) Tools(context.Context) ([]tool.Tool, error) { return q.tools, nil }
