package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
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
that is said and nothing is created.`,
		Example: `  turnlog provision --server nats://nats.example.com:4222 --replicas 3
  turnlog provision --context production --namespace team-a`,
	}
	cmd.Flags().IntVar(&cfg.Replicas, "replicas", 1, "`copies` of everything, on as many servers")
	cmd.Flags().BoolVar(&cfg.Memory, "memory", false, "keep everything in memory, on servers that are only for trying out")
	d := cli.NewDeployment(cmd, a.getenv)
	logs := cli.NewLog(cmd, zapcore.WarnLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.interruptible(cmd.Context(), func(ctx context.Context) error {
			cell, err := d.Dial(ctx, "turnlog provision", logs.Logger(a.term.err, a.getenv))
			if err != nil {
				return err
			}
			defer cell.Close()
			if err := cell.Provision(ctx, cfg); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.term.out, "%s is ready at %s\n", d.Namespace(), cell.Conn.ConnectedUrlRedacted())
			return err
		})
	}
	return cmd
}
