package jetstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/tool"
)

// offerTTL is how long an offer stands without renewal: three times the 3 s at which workers
// renew it, and a margin.
const offerTTL = 10 * time.Second

// Offer is what one worker offers.
type Offer struct {
	Worker string      `msgpack:"w"`
	Queue  string      `msgpack:"q"`
	Tools  []tool.Spec `msgpack:"t"`
}

// Catalog holds the tools that workers offer at the moment.
type Catalog struct {
	cell   *Cell
	offers bucket[Offer]
}

// Catalog returns the cell's catalog.
func (c *Cell) Catalog() *Catalog {
	return &Catalog{c, valueBucket[Offer](c, c.names.Catalog(), layout.OfferKeys, offerTTL)}
}

// Advertise makes or renews a worker's offer, which stands for 10 s: call it every 3 s.
func (c *Catalog) Advertise(ctx context.Context, o Offer) error {
	if !content.IsToken(o.Worker) {
		return fmt.Errorf("advertise: %w: worker %q", content.ErrBadID, o.Worker)
	}
	if _, err := c.offers.put(ctx, o.Worker, o); err != nil {
		return fmt.Errorf("advertise tools of %s: %w", o.Worker, err)
	}
	return nil
}

// Withdraw removes a worker's offer at once.
func (c *Catalog) Withdraw(ctx context.Context, worker string) error {
	if err := c.offers.delete(ctx, worker); err != nil {
		return fmt.Errorf("withdraw tools of %s: %w", worker, err)
	}
	return nil
}

// List returns the current offers, by worker. It reads once and needs no consumer as Watch
// does.
func (c *Catalog) List(ctx context.Context) ([]Offer, error) {
	items, err := c.offers.scan(ctx, "*")
	if err != nil {
		return nil, fmt.Errorf("list catalog: %w", err)
	}
	var out []Offer
	for _, it := range items {
		if it.Value.Worker == it.Key { // else it is not an offer of the worker that the key names
			out = append(out, it.Value)
		}
	}
	slices.SortFunc(out, func(a, b Offer) int { return cmp.Compare(a.Worker, b.Worker) })
	return out, nil
}

// CatalogView is an up-to-date copy of the catalog. It is safe for concurrent use.
type CatalogView struct {
	changed chan struct{}
	done    chan struct{}
	cancel  context.CancelFunc

	mu     sync.Mutex
	offers []entry // sorted by worker
}

// entry is an offer with its bytes, which show that a renewal is not a change.
type entry struct {
	worker string
	value  []byte
	offer  Offer
}

// Watch follows the catalog until ctx ends or the view is closed. The view is complete when
// Watch returns. While the connection is down it stays as it was.
func (c *Catalog) Watch(ctx context.Context) (*CatalogView, error) {
	ctx, cancel := context.WithCancel(ctx)
	v := &CatalogView{changed: make(chan struct{}, 1), done: make(chan struct{}), cancel: cancel}
	keys, err := c.watch(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch catalog: %w", err)
	}
	ready := make(chan struct{})
	go v.follow(ctx, keys, ready) // Close waits for it
	select {
	case <-ready:
		return v, nil
	case <-ctx.Done():
		v.Close()
		return nil, context.Cause(ctx)
	}
}

func (c *Catalog) watch(ctx context.Context) (jetstream.KeyWatcher, error) {
	js, err := jetstream.New(c.cell.nc)
	if err != nil {
		return nil, err //nolint:wrapcheck // Watch names itself
	}
	// The client bounds its requests only if ctx has no deadline; with one it would wait for
	// a single answer until then.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, stop)
	name := c.offers.name
	var keys jetstream.KeyWatcher
	err = api.Patiently(ctx, func(context.Context) error {
		kv, err := js.KeyValue(life, string(name))
		if err != nil {
			return err //nolint:wrapcheck // Watch names itself
		}
		keys, err = kv.Watch(life, layout.OfferKeys+"*")
		return err //nolint:wrapcheck // Watch names itself
	})
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound):
		return nil, fmt.Errorf("%w: bucket %s is missing", ErrNotProvisioned, name)
	case err != nil:
		return nil, c.cell.api.Explain(ctx, name.Stream(), err)
	}
	return keys, nil
}

// follow applies changes until ctx ends. It closes ready when the view holds the initial state.
func (v *CatalogView) follow(ctx context.Context, keys jetstream.KeyWatcher, ready chan struct{}) {
	defer close(v.done)
	defer func() { _ = keys.Stop() }() // the connection may be gone
	for {
		select {
		case <-ctx.Done():
			return
		case k, ok := <-keys.Updates():
			switch {
			case !ok:
				return
			case k == nil:
				close(ready)
			default:
				v.apply(k)
			}
		}
	}
}

// apply applies one change of a key. A value that is not an offer of the key's worker counts as
// none.
func (v *CatalogView) apply(k jetstream.KeyValueEntry) {
	e := entry{worker: strings.TrimPrefix(k.Key(), layout.OfferKeys), value: k.Value()}
	offered := k.Operation() == jetstream.KeyValuePut && !api.Expired(k.Created(), offerTTL) &&
		decodeValue(e.value, &e.offer) == nil && e.offer.Worker == e.worker
	v.mu.Lock()
	defer v.mu.Unlock()
	i, found := slices.BinarySearchFunc(v.offers, e.worker, func(o entry, w string) int { return cmp.Compare(o.worker, w) })
	switch {
	case offered && found && bytes.Equal(v.offers[i].value, e.value) || !offered && !found:
		return
	case offered && found:
		v.offers[i] = e
	case offered:
		v.offers = slices.Insert(v.offers, i, e)
	default:
		v.offers = slices.Delete(v.offers, i, i+1)
	}
	select {
	case v.changed <- struct{}{}:
	default: // a change is already signaled
	}
}

// Snapshot returns the offers, sorted by worker. Equal catalogs give equal snapshots.
func (v *CatalogView) Snapshot() []Offer {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]Offer, len(v.offers))
	for i, e := range v.offers {
		out[i] = e.offer
	}
	return out
}

// Changed receives after the offers changed: at least once after the last change that Snapshot
// does not show yet, not once per change. One reader may use it.
func (v *CatalogView) Changed() <-chan struct{} { return v.changed }

// Close ends the watch and waits until it has ended.
func (v *CatalogView) Close() {
	v.cancel()
	<-v.done
}

// Offers advertises the tools of one worker. It is a worker.Offers.
type Offers struct {
	catalog *Catalog
	worker  string
	queue   string

	made chan struct{}
	once sync.Once
}

// Offers returns the offers of a worker, whose name must be unique, for calls of a queue.
func (c *Cell) Offers(worker, queue string) *Offers {
	return &Offers{catalog: c.Catalog(), worker: worker, queue: queue, made: make(chan struct{})}
}

// Made is closed when the tools are first in the catalog.
func (o *Offers) Made() <-chan struct{} { return o.made }

// Advertise makes or renews the worker's offer.
func (o *Offers) Advertise(ctx context.Context, tools []tool.Spec) error {
	if err := o.catalog.Advertise(ctx, Offer{Worker: o.worker, Queue: o.queue, Tools: tools}); err != nil {
		return fmt.Errorf("offer tools: %w", err)
	}
	o.once.Do(func() { close(o.made) })
	return nil
}

// Withdraw removes the worker's offer.
func (o *Offers) Withdraw(ctx context.Context) error { return o.catalog.Withdraw(ctx, o.worker) }
