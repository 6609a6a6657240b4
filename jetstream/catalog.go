package jetstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/release"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// offerTTL is how long an offer lasts without renewal. Workers renew it every 3 s.
const offerTTL = 10 * time.Second

// Offer is what one worker offers.
type Offer struct {
	Worker  string      `msgpack:"w"`
	Queue   string      `msgpack:"q"`
	Tools   []tool.Spec `msgpack:"t"`
	Release string      `msgpack:"r,omitempty"` // of the worker's program; empty for releases of 26 November 2026 or before
	Slots   int         `msgpack:"s,omitempty"` // calls at a time; 0: unknown
	Running int         `msgpack:"n,omitempty"` // calls that the worker ran when it made or renewed the offer
}

// Catalog holds the tools that workers currently offer.
type Catalog struct {
	cell   *Cell
	offers bucket.Bucket[Offer]
}

// Catalog returns the cell's catalog.
func (c *Cell) Catalog() *Catalog {
	return &Catalog{c, bucket.OfValues[Offer](c.api, "offer", c.names.Catalog(), layout.OfferKeys, 1, offerTTL)}
}

// Advertise makes or renews a worker's offer. It lasts for 10 s; renew it every 3 s.
func (c *Catalog) Advertise(ctx context.Context, o Offer) error {
	_, err := c.offers.Put(ctx, o.Worker, o)
	return err
}

// Withdraw removes a worker's offer at once.
func (c *Catalog) Withdraw(ctx context.Context, worker string) error {
	return c.offers.Delete(ctx, worker)
}

// List returns the current offers, by worker. Unlike Watch it needs no consumer.
func (c *Catalog) List(ctx context.Context) ([]Offer, error) {
	items, err := c.offers.Scan(ctx)
	var out []Offer
	for _, it := range items {
		if it.Value.Worker == it.Key {
			out = append(out, it.Value)
		}
	}
	slices.SortFunc(out, byWorker)
	return out, err
}

func byWorker(a, b Offer) int { return cmp.Compare(a.Worker, b.Worker) }

// CatalogView is an up-to-date copy of the catalog. It is safe for concurrent use.
type CatalogView struct {
	changed chan struct{}
	done    chan struct{}
	cancel  context.CancelFunc

	mu     sync.Mutex
	offers map[string]entry // by worker
	bytes  int              // total size of their encodings
}

// maxOffers limits the bytes of the offers that a view holds. It ignores further offers until there is
// room.
const maxOffers = 64 << 20

// entry is an offer with its encoding, which distinguishes a change from a renewal.
type entry struct {
	Offer

	value []byte
}

// sameAs reports whether two offers differ at most in slots and running calls, which change no catalog.
func (e entry) sameAs(next entry) bool {
	return e.Queue == next.Queue && e.Release == next.Release && reflect.DeepEqual(e.Tools, next.Tools)
}

// Watch follows the catalog until ctx ends or the view is closed. The view is complete when Watch
// returns. It does not change while the connection is down.
func (c *Catalog) Watch(ctx context.Context) (*CatalogView, error) {
	ctx, cancel := context.WithCancel(ctx)
	v := &CatalogView{changed: make(chan struct{}, 1), done: make(chan struct{}), cancel: cancel, offers: make(map[string]entry)}
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
	cell := c.cell
	js, err := jetstream.New(cell.nc)
	if err != nil {
		return nil, err //nolint:wrapcheck // Watch adds its name
	}
	// The client limits the time of a request only if ctx has no deadline. Otherwise it would
	// wait for one answer until then.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, stop)
	name := cell.names.Catalog()
	var keys jetstream.KeyWatcher
	err = api.Patiently(ctx, func(context.Context) error {
		kv, err := js.KeyValue(life, string(name))
		if err != nil {
			return err //nolint:wrapcheck // Watch adds its name
		}
		keys, err = kv.Watch(life, layout.OfferKeys+"*")
		return err //nolint:wrapcheck // Watch adds its name
	})
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound):
		return nil, fmt.Errorf("%w: bucket %s is missing", ErrNotProvisioned, name)
	case err != nil:
		return nil, cell.api.Explain(ctx, name.Stream(), err)
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

// apply applies one change of a key. A value that is not an offer of the key's worker counts as a deletion.
func (v *CatalogView) apply(k jetstream.KeyValueEntry) {
	worker, e := strings.TrimPrefix(k.Key(), layout.OfferKeys), entry{value: k.Value()}
	offered := content.IsToken(worker) && k.Operation() == jetstream.KeyValuePut && !api.Expired(k.Created(), offerTTL) &&
		decodeValue(e.value, &e.Offer) == nil && e.Worker == worker
	v.mu.Lock()
	defer v.mu.Unlock()
	old, found := v.offers[worker]
	offered = offered && v.bytes-len(old.value)+len(e.value) <= maxOffers
	switch {
	case offered && found && bytes.Equal(old.value, e.value) || !offered && !found:
		return
	case offered:
		v.offers[worker] = e
		v.bytes += len(e.value) - len(old.value)
		if found && old.sameAs(e) {
			return
		}
	default:
		delete(v.offers, worker)
		v.bytes -= len(old.value)
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
	out := make([]Offer, 0, len(v.offers))
	for _, e := range v.offers {
		out = append(out, e.Offer)
	}
	slices.SortFunc(out, byWorker)
	return out
}

// Changed receives a value after one or more changes of the offers. It has one reader.
func (v *CatalogView) Changed() <-chan struct{} { return v.changed }

// Close ends the watch and waits until it has ended.
func (v *CatalogView) Close() {
	v.cancel()
	<-v.done
}

// Offers advertises the tools of one worker. It implements worker.Offers.
type Offers struct {
	catalog *Catalog
	worker  string
	queue   string

	made chan struct{}
	once sync.Once
}

// Offers returns the offers of a worker for calls on a queue. The worker's name must be unique.
func (c *Cell) Offers(worker, queue string) *Offers {
	return &Offers{catalog: c.Catalog(), worker: worker, queue: queue, made: make(chan struct{})}
}

// Made returns a channel that is closed when the tools are in the catalog.
func (o *Offers) Made() <-chan struct{} { return o.made }

// Advertise makes or renews the worker's offer.
func (o *Offers) Advertise(ctx context.Context, x task.Offer) error {
	err := o.catalog.Advertise(ctx, Offer{
		Worker: o.worker, Queue: o.queue, Tools: x.Tools, Release: release.Version(), Slots: x.Slots, Running: x.Running,
	})
	if err == nil {
		o.once.Do(func() { close(o.made) })
	}
	return err
}

// Withdraw removes the worker's offer.
func (o *Offers) Withdraw(ctx context.Context) error { return o.catalog.Withdraw(ctx, o.worker) }
