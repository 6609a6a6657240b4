package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// ownTools are the flags of the tools that the node runs itself.
type ownTools struct {
	toolset.Flags

	commands bool
	drain    time.Duration
}

func (f *ownTools) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	cli.Group(fs, cli.ToolFlags, func() {
		f.Register(cmd, toolset.NoSet)
		fs.BoolVar(&f.commands, "allow-commands", false, "let the tools run commands on this machine, which has the keys of the models")
	})
	fs.DurationVar(&f.drain, "drain", 10*time.Second, "`time` for running calls of the node's own tools to finish when the node stops")
}

func (f *ownTools) check() error {
	if f.drain <= 0 {
		return cli.Usage("--drain %v: use a positive time", f.drain)
	}
	return nil
}

// startedTools are the tools, and the queue of their calls. Without tools, queue is nil.
type startedTools struct {
	flags *ownTools
	tools *toolset.Tools
	queue *task.Local
}

// start opens the tools. Its errors are usage errors.
func (f *ownTools) start(ctx context.Context, getenv func(string) string, log *zap.Logger) (*startedTools, error) {
	tools, err := f.Start(ctx, toolset.Agents{}, cli.Version(), getenv, log)
	if err != nil {
		return nil, err
	}
	s := &startedTools{flags: f, tools: tools}
	if f.RunsCommands() && !f.commands {
		s.close()
		return nil, errors.New("these tools run commands on the machine of the node: add --allow-commands, or run them on a tool-worker elsewhere")
	}
	if f.Any() {
		s.queue = task.NewLocal()
	}
	return s, nil
}

func (s *startedTools) close() { s.tools.Close() }

// worker returns the function that runs the worker next to the node, if there is one.
func (s *startedTools) worker(cell *jetstream.Cell, log *zap.Logger) (run func(context.Context) error, err error) {
	if s.queue == nil {
		return func(context.Context) error { return nil }, nil
	}
	cfg, err := s.tools.Worker(cell, nil, nil, log)
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	cfg.Queue, cfg.Offers, cfg.DrainTimeout = s.queue, s.queue, s.flags.drain
	w, err := worker.New(cfg)
	if err != nil {
		return nil, err
	}
	for _, path := range s.flags.Absent() {
		log.Warn("path is not protected", zap.String("path", path))
	}
	return w.Run, nil
}
