package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
)

func newProvisionCommand(a *app) *cobra.Command {
	var cfg jetstream.Config
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "Create a deployment's streams on a NATS server",
		Long: `Creates the streams and buckets of a deployment that are not there. What is there is left
as it is; if its settings are not those that are asked for, or a subject is another stream's,
that is said and nothing is created.

A profile says how much the deployment must survive. "dev" is one copy, "standard" three, and
"audit" three that are on disk before a write is acknowledged; stronger is fine. When servers sync
is their own setting (sync_interval), which no client of NATS can see or change: --monitor looks at
their monitoring ports, or --assume-sync takes your word. What is weaker is an error that says what
to change. "turnlog doctor --profile P" and "driver-node --profile P" look again later.`,
		Example: `  turnlog provision --server nats://nats.example.com:4222 --profile standard
  turnlog provision --profile audit --monitor http://n1:8222 --monitor http://n2:8222 --monitor http://n3:8222
  turnlog provision --context production --namespace team-a --queue default --queue gpu`,
	}
	cmd.Flags().IntVar(&cfg.Replicas, "replicas", 1, "`copies` of everything, on as many servers")
	cmd.Flags().BoolVar(&cfg.Memory, "memory", false, "keep everything in memory, on servers that are only for trying out")
	var queues []string
	cmd.Flags().StringArrayVar(&queues, "queue", nil, "`name` of a queue to create, for workers that are not permitted to; may be given again")
	durability := cli.NewDurability(cmd, "durability `profile` that the deployment is to have")
	d := cli.NewDeployment(cmd, a.getenv)
	logs := cli.NewLog(cmd, zapcore.WarnLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if cfg.Memory && durability.Profile() != "" {
			return usageError("--memory is weaker than any --profile")
		}
		if cfg.Replicas, err = durability.Replicas(cmd, cfg.Replicas); err != nil {
			return err
		}
		for _, q := range queues {
			cfg.Queues = append(cfg.Queues, jetstream.QueueConfig{Name: q})
		}
		log := logs.Logger(a.term.err, a.getenv)
		return a.interruptible(cmd.Context(), func(ctx context.Context) error {
			cell, err := d.Dial(ctx, "turnlog provision", log)
			if err != nil {
				return err
			}
			defer cell.Close()
			if err := provisionAs(ctx, cell, durability, cfg, log); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.term.out, "%s is ready at %s\n", d.Namespace(), cell.Conn.ConnectedUrlRedacted())
			return err
		})
	}
	return cmd
}

// provisionAs creates what is missing. A deployment that was made stronger than its
// profile asks for is left so.
func provisionAs(ctx context.Context, cell *cli.Cell, d *cli.Durability, cfg jetstream.Config, log *zap.Logger) error {
	if d.Profile() != "" {
		seen, err := cell.Inspect(ctx)
		if err == nil && len(seen.Weaker(d.Profile())) == 0 {
			for _, s := range seen.Streams {
				cfg.Replicas = max(cfg.Replicas, s.Replicas)
			}
		}
	}
	err := cell.Provision(ctx, cfg)
	if _, differs := errors.AsType[*jetstream.MismatchError](err); differs && d.Profile() != "" {
		return fmt.Errorf("%w (\"turnlog doctor --profile %s\" says how to change each)", err, d.Profile())
	}
	if err != nil && cfg.Replicas > 1 {
		return fmt.Errorf("%w (%d copies need a cluster of as many servers)", err, cfg.Replicas)
	}
	if err != nil {
		return err
	}
	return d.Require(ctx, cell, log)
}
