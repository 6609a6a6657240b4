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
	"github.com/turnlog/turnlog/tool"
)

// offerTTL is how long an offer stands without being made again: three times the
// 3 s at which workers make it, and a little.
const offerTTL = 10 * time.Second

const offerKeys = "offer."

// Offer is what one worker has on offer.
type Offer struct {
	Worker string      `msgpack:"w"`
	Queue  string      `msgpack:"q"`
	Tools  []tool.Spec `msgpack:"t"`
}

// Catalog holds the tools that workers have on offer now.
type Catalog struct {
	cell *Cell
}

// Catalog returns the cell's catalog.
func (c *Cell) Catalog() *Catalog { return &Catalog{cell: c} }

// Advertise makes or renews a worker's offer, which stands for 10 s: call it
// every 3 s.
func (c *Catalog) Advertise(ctx context.Context, o Offer) error {
	if !content.IsToken(o.Worker) {
		return fmt.Errorf("advertise: %w: worker %q", content.ErrBadID, o.Worker)
	}
	value, err := encodeValue(&o)
	if err == nil {
		err = c.cell.keyPut(ctx, c.cell.names.catalogBucket(), offerKeys+o.Worker, value, offerTTL)
	}
	if err != nil {
		return fmt.Errorf("advertise tools of %s: %w", o.Worker, err)
	}
	return nil
}

// Withdraw takes a worker's offer away at once.
func (c *Catalog) Withdraw(ctx context.Context, worker string) error {
	if err := c.cell.keyDelete(ctx, c.cell.names.catalogBucket(), offerKeys+worker, offerTTL); err != nil {
		return fmt.Errorf("withdraw tools of %s: %w", worker, err)
	}
	return nil
}

// List returns the offers that stand, by worker. It looks once, and needs no consumer
// as Watch does.
func (c *Catalog) List(ctx context.Context) ([]Offer, error) {
	var out []Offer
	bucket := c.cell.names.catalogBucket()
	for m, err := range c.cell.batchGet(ctx, kvStream(bucket), kvKey(bucket, offerKeys+"*"), 0) {
		if err != nil {
			return nil, fmt.Errorf("list catalog: %w", err)
		}
		var o Offer
		if m.Aimed || m.gone() || unmarshal(m.Data, &o) != nil || m.Subject != kvKey(bucket, offerKeys+o.Worker) {
			continue // no offer of the worker that the key names
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Offer) int { return cmp.Compare(a.Worker, b.Worker) })
	return out, nil
}

// CatalogView is the catalog as it is now. It is safe for concurrent use.
type CatalogView struct {
	changed chan struct{}
	done    chan struct{}
	cancel  context.CancelFunc

	mu     sync.Mutex
	offers []entry // sorted by worker
}

// entry is an offer with its bytes, so that a renewal is no change.
type entry struct {
	worker string
	value  []byte
	offer  Offer
}

// Watch follows the catalog until ctx ends or the view is closed. The view is
// complete when Watch returns. While the connection is cut off it stays as it
// was.
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
	// Without a deadline the client bounds each of its requests; up to one it would wait
	// for a single answer.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, stop)
	var keys jetstream.KeyWatcher
	err := patiently(ctx, func(context.Context) error {
		bucket, err := c.cell.js.KeyValue(life, c.cell.names.catalogBucket())
		if err != nil {
			return err //nolint:wrapcheck // Watch names itself
		}
		keys, err = bucket.Watch(life, offerKeys+"*")
		return err //nolint:wrapcheck // Watch names itself
	})
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound):
		return nil, fmt.Errorf("%w: bucket %s is missing", ErrNotProvisioned, c.cell.names.catalogBucket())
	case err != nil:
		return nil, c.cell.explain(ctx, kvStream(c.cell.names.catalogBucket()), err)
	}
	return keys, nil
}

// follow applies changes until ctx ends. ready is closed when the view holds
// what was there at the beginning.
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

// apply takes one change of a key over. What is no offer of the worker that the key
// names is none.
func (v *CatalogView) apply(k jetstream.KeyValueEntry) {
	e := entry{worker: strings.TrimPrefix(k.Key(), offerKeys), value: k.Value()}
	offered := k.Operation() == jetstream.KeyValuePut && !outlived(k.Created(), offerTTL) && unmarshal(e.value, &e.offer) == nil && e.offer.Worker == e.worker
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
	default: // it is known already that something changed
	}
}

// Snapshot returns the offers, sorted by worker. Equal catalogs give equal
// snapshots.
func (v *CatalogView) Snapshot() []Offer {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]Offer, len(v.offers))
	for i, e := range v.offers {
		out[i] = e.offer
	}
	return out
}

// Changed receives after the offers changed: at least once after the last change
// that Snapshot does not show yet, not once per change. One reader may use it.
func (v *CatalogView) Changed() <-chan struct{} { return v.changed }

// Close ends the watching and waits until it has ended.
func (v *CatalogView) Close() {
	v.cancel()
	<-v.done
}
