package toolset

import (
	"context"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/task"
	"github.com/turnlog/turnlog/tool"
)

// Offers puts a worker's tools into a deployment's catalog. It is a worker.Offers.
type Offers struct {
	catalog *jetstream.Catalog
	worker  string
	queue   string

	made chan struct{}
	once sync.Once
}

// NewOffers returns the offers of a worker that takes calls from a queue.
func NewOffers(catalog *jetstream.Catalog, worker, queue string) *Offers {
	return &Offers{catalog: catalog, worker: worker, queue: queue, made: make(chan struct{})}
}

// Made is closed when the tools are first on offer.
func (o *Offers) Made() <-chan struct{} { return o.made }

// Advertise puts the tools into the catalog, or keeps them there.
func (o *Offers) Advertise(ctx context.Context, tools []tool.Spec) error {
	if err := o.catalog.Advertise(ctx, jetstream.Offer{Worker: o.worker, Queue: o.queue, Tools: tools}); err != nil {
		return fmt.Errorf("offer tools: %w", err)
	}
	o.once.Do(func() { close(o.made) })
	return nil
}

// Withdraw takes the tools out of the catalog.
func (o *Offers) Withdraw(ctx context.Context) error { return o.catalog.Withdraw(ctx, o.worker) }

// Progress shows what running tools say of themselves to whoever looks on.
func Progress(live *jetstream.Live, log *zap.Logger) func(task.Task, string, float64) {
	return func(t task.Task, text string, share float64) {
		if err := live.Publish(t.Session, events.ToolProgress{Call: t.Call, Text: text, Share: share}); err != nil {
			log.Debug("progress not shown", zap.Error(err))
		}
	}
}
