package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
)

// serverFlags say how the server keeps and shows itself.
type serverFlags struct {
	listen, store, namespace string
	sync                     bool
	user, password           string
	noProvision              bool
}

func newServerCommand(a *app) *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run only the NATS server, with the deployment's streams",
		Long: `Runs a NATS server with JetStream until it is interrupted, and creates the deployment's
streams on it. It is one server on one machine: for replicas, run a NATS cluster.`,
		Example: `  turnlog server --store /var/lib/turnlog
  turnlog server --listen 127.0.0.1:0 --store /tmp/try
  turnlog server --listen :4222 --store /var/lib/turnlog --sync --user ops --password "$PASSWORD"`,
	}
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", defaultListen, "`address` for NATS clients; port 0 takes any free one")
	fs.StringVar(&f.store, "store", "", "`directory` for the streams; empty: in memory, gone with the process")
	fs.BoolVar(&f.sync, "sync", false, "sync every write to disk before it is acknowledged")
	fs.StringVar(&f.user, "user", "", "let in only this `user`, with --password")
	fs.StringVar(&f.password, "password", "", "the user's `password`")
	fs.StringVar(&f.namespace, "namespace", jetstream.DefaultNamespace, "`name` of the deployment")
	fs.BoolVar(&f.noProvision, "no-provision", false, "do not create the deployment's streams")
	logs := cli.NewLog(cmd, zapcore.InfoLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log := logs.Logger(a.term.err, a.getenv)
		return a.untilInterrupted(cmd.Context(), func(ctx context.Context) error { return a.serve(ctx, f, log) })
	}
	return cmd
}

func (f serverFlags) options(log *zap.Logger) []embedded.Option {
	opts := []embedded.Option{embedded.WithLogger(log), embedded.WithListener(f.listen)}
	if f.store != "" {
		opts = append(opts, embedded.WithStore(f.store))
	}
	if f.sync {
		opts = append(opts, embedded.WithSync())
	}
	if f.user != "" || f.password != "" {
		opts = append(opts, embedded.WithUser(f.user, f.password))
	}
	return opts
}

func (a *app) serve(ctx context.Context, f serverFlags, log *zap.Logger) error {
	if _, err := jetstream.ParseNamespace(f.namespace); err != nil {
		return usageError("--%w", err)
	}
	if err := embedded.Check(f.options(log)...); err != nil {
		return usageError("%w", err)
	}
	log.Info("starting", zap.String("listen", f.listen), zap.String("store", f.store), zap.Bool("sync", f.sync),
		zap.String("namespace", f.namespace), zap.Bool("provision", !f.noProvision))
	srv, err := embedded.Start(ctx, f.options(log)...)
	if err != nil {
		return err
	}
	defer srv.Close()
	if !f.noProvision {
		if _, err := provisionOn(ctx, srv, f.namespace); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintln(a.term.out, srv.ClientURL()) // whoever chose port 0 reads it
	<-ctx.Done()
	log.Info("stopping")
	return context.Cause(ctx)
}

// provisionOn creates the deployment's streams on an embedded server and returns
// the cell. The server closes its connection.
func provisionOn(ctx context.Context, srv *embedded.Server, namespace string, queues ...jetstream.QueueConfig) (*cli.Cell, error) {
	nc, err := srv.Connect()
	if err != nil {
		return nil, err
	}
	cell, err := jetstream.Open(nc, namespace)
	if err != nil {
		return nil, usageError("--%w", err)
	}
	if err := cell.Provision(ctx, jetstream.Config{Memory: srv.InMemory(), Queues: queues}); err != nil {
		return nil, err
	}
	return &cli.Cell{Cell: cell, Conn: nc}, nil
}
