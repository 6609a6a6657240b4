package main

import (
	"context"
	"sync"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
)

// offers puts the worker's tools into the deployment's catalog, from where models
// are offered them.
type offers struct {
	catalog *jetstream.Catalog
	made    chan struct{} // closed once they are there
	once    sync.Once
}

// Advertise is called every few seconds: an offer that is not renewed lapses.
func (o *offers) Advertise(ctx context.Context, tools []tool.Spec) error {
	if err := o.catalog.Advertise(ctx, jetstream.Offer{Worker: "worker-1", Queue: queue, Tools: tools}); err != nil {
		return err
	}
	o.once.Do(func() { close(o.made) })
	return nil
}

// Withdraw is called when the worker ends.
func (o *offers) Withdraw(ctx context.Context) error { return o.catalog.Withdraw(ctx, "worker-1") }
