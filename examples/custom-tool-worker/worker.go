package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// work runs calls of the tools until ctx ends. Any number of processes may do that.
func work(ctx context.Context, cell *jetstream.Cell, offers *jetstream.Offers, tools tool.Source) error {
	if err := admin.Of(cell).EnsureQueue(ctx, admin.QueueConfig{Name: "words"}); err != nil {
		return err
	}
	queue, err := cell.Queue(ctx, "words")
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{Queue: queue, Tools: []tool.Source{tools}, Offers: offers, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
