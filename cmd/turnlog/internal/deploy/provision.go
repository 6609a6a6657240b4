package deploy

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// Provision returns the command that creates a deployment's streams.
func Provision(a *app.App) *cobra.Command {
	var cfg admin.Config
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "Create a deployment's streams on a NATS server",
		Long: `Creates the missing streams and buckets of a deployment. It never changes existing ones: if their
settings differ from those requested, or another stream owns a subject, it reports that and creates
nothing.

A profile is a required level of durability. "dev" is one copy, "standard" three copies, and "audit"
three copies that are synced to disk before a write is acknowledged; stronger settings are fine. When a
server syncs (sync_interval) is part of its own configuration, and a NATS client cannot read or change
it. --monitor reads it from the servers' monitoring ports; --assume-sync accepts your word. Weaker
settings are an error that says what to change. "turnlog doctor --profile P" and "driver-node
--profile P" check again later.`,
		Example: `  turnlog provision --server nats://nats.example.com:4222 --profile standard
  turnlog provision --profile audit --monitor http://n1:8222 --monitor http://n2:8222 --monitor http://n3:8222
  turnlog provision --context production --namespace team-a --queue default --queue gpu`,
	}
	cmd.Flags().IntVar(&cfg.Replicas, "replicas", 1, "`number` of copies of everything, each on another server")
	cmd.Flags().BoolVar(&cfg.Memory, "memory", false, "store everything in memory, for tests")
	queues := cmd.Flags().StringArray("queue", nil, "`name` of a queue to create, for workers that lack the permission; may be repeated")
	durability := cli.NewDurability(cmd, "durability `profile` that the deployment must have")
	r := a.Remote(cmd, admin.RoleProvisioner)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if cfg.Memory && durability.Profile() != "" {
			return cli.Usage("--memory is weaker than any --profile")
		}
		if cfg.Replicas, err = durability.Replicas(cmd, cfg.Replicas); err != nil {
			return err
		}
		for _, q := range *queues {
			cfg.Queues = append(cfg.Queues, admin.QueueConfig{Name: q})
		}
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			cell, err := r.Dial(ctx, r.Program(), r.Logger())
			if err != nil {
				return err
			}
			defer cell.Close()
			if err := provision(ctx, cell, durability, cfg); err != nil {
				return err
			}
			if err := durability.Require(ctx, cell, r.Logger()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "%s is ready at %s\n", r.Namespace(), cell.Conn.ConnectedUrlRedacted())
			return err
		})
	}
	return cmd
}

// provision creates missing streams and buckets. It does not change a deployment that is stronger than its
// profile.
func provision(ctx context.Context, cell *cli.Cell, d *cli.Durability, cfg admin.Config) error {
	if d.Profile() != "" {
		seen, err := admin.Of(cell.Cell).Inspect(ctx)
		if err == nil && len(seen.Weaker(d.Profile())) == 0 {
			for _, s := range seen.Streams {
				cfg.Replicas = max(cfg.Replicas, s.Replicas)
			}
		}
	}
	err := cell.Provision(ctx, cfg)
	_, differs := errors.AsType[*admin.MismatchError](err)
	_, denied := jetstream.Denied(err)
	switch {
	case denied:
		return err
	case differs && d.Profile() != "":
		return fmt.Errorf("%w (\"turnlog doctor --profile %s\" says how to change each)", err, d.Profile())
	case err != nil && cfg.Replicas > 1:
		return fmt.Errorf("%w (%d copies need a cluster of as many servers)", err, cfg.Replicas)
	}
	return err
}

// provisionOn creates the deployment's streams on an embedded server, as the user of the options. The
// server closes the connection of the cell.
func provisionOn(ctx context.Context, srv *embedded.Server, namespace string, as []nats.Option, queues ...admin.QueueConfig) (*cli.Cell, error) {
	nc, err := srv.Connect(as...)
	if err != nil {
		return nil, err
	}
	cell, err := jetstream.Open(nc, namespace)
	if err != nil {
		return nil, cli.Usage("--%w", err)
	}
	if err := admin.Of(cell).Provision(ctx, admin.Config{Memory: srv.InMemory(), Queues: queues}); err != nil {
		return nil, err
	}
	return &cli.Cell{Cell: cell, Conn: nc}, nil
}
