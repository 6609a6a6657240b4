package jetstream

import (
	"context"
	"fmt"
	"sync"

	"github.com/turnlog/turnlog/tool"
)

// Offers puts a worker's tools into the catalog, and takes them out again. It is a
// worker.Offers.
type Offers struct {
	catalog *Catalog
	worker  string
	queue   string

	made chan struct{}
	once sync.Once
}

// Offers returns the offers of a worker, named as no other one is, that takes its calls
// from a queue.
func (c *Cell) Offers(worker, queue string) *Offers {
	return &Offers{catalog: c.Catalog(), worker: worker, queue: queue, made: make(chan struct{})}
}

// Made is closed when the tools are first on offer.
func (o *Offers) Made() <-chan struct{} { return o.made }

// Advertise puts the tools into the catalog, or keeps them there.
func (o *Offers) Advertise(ctx context.Context, tools []tool.Spec) error {
	if err := o.catalog.Advertise(ctx, Offer{Worker: o.worker, Queue: o.queue, Tools: tools}); err != nil {
		return fmt.Errorf("offer tools: %w", err)
	}
	o.once.Do(func() { close(o.made) })
	return nil
}

// Withdraw takes the tools out of the catalog.
func (o *Offers) Withdraw(ctx context.Context) error { return o.catalog.Withdraw(ctx, o.worker) }
