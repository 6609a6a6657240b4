package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream"
)

// defaultListen is where NATS clients look first.
const defaultListen = "127.0.0.1:4222"

// devDrain is how long running calls may go on when dev ends.
const devDrain = 10 * time.Second

func newDevCommand(a *app) *cobra.Command {
	var listen, store, namespace string
	var tools toolset.Flags
	var hooks bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole deployment in this process, on disk and with a port",
		Long: `Runs a NATS server that keeps its streams on disk, a driver node and a worker, until it is
interrupted. Sessions are still there when it is started again. More nodes and workers may
join it over the port.`,
		Example: `  turnlog dev
  turnlog dev --tools fs,shell --allow-write --root ./site
  turnlog dev --listen 127.0.0.1:0 --store /tmp/try`,
	}
	cmd.Flags().StringVar(&listen, "listen", defaultListen, "`address` for NATS clients; port 0 takes any free one")
	cmd.Flags().StringVar(&store, "store", "", "`directory` for the streams; default: turnlog/dev in the user's cache directory")
	cmd.Flags().StringVar(&namespace, "namespace", jetstream.DefaultNamespace, "`name` of the deployment on its server")
	tools.Register(cmd)
	cli.AgentHooksFlag(cmd, &hooks)
	logs := cli.NewLog(cmd, zapcore.InfoLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		store, err := a.storeDirectory(store)
		if err != nil {
			return err
		}
		log := logs.Logger(a.term.err, a.getenv)
		log.Info("starting", zap.String("listen", listen), zap.String("store", store), zap.String("namespace", namespace),
			zap.Strings("tools", tools.Sets()), zap.String("root", tools.Root), zap.Bool("allow_write", tools.AllowWrite))
		l := local{
			server: []embedded.Option{embedded.WithListener(listen)}, store: store, namespace: namespace,
			models: a.models().OpenShared, tools: tools, agent: agentOf{hooks: hooks}, drain: devDrain, log: log, app: a,
		}
		return a.untilInterrupted(cmd.Context(), func(ctx context.Context) error {
			return l.within(ctx, func(ctx context.Context, srv *embedded.Server, _ *cli.Cell) error {
				a.welcome(srv.ClientURL(), namespace)
				<-ctx.Done()
				return context.Cause(ctx)
			})
		})
	}
	return cmd
}

// storeDirectory is where dev keeps its streams if nothing else is said.
func (a *app) storeDirectory(store string) (string, error) {
	if store != "" {
		return store, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", usageError("no place for the streams: %w: give --store", err)
	}
	return filepath.Join(cache, "turnlog", "dev"), nil
}

// welcome says how to use what runs now.
func (a *app) welcome(url, namespace string) {
	at := "--server " + url
	if namespace != jetstream.DefaultNamespace {
		at += " --namespace " + namespace
	}
	_, _ = fmt.Fprintf(a.term.out, `Turnlog is up at %s. In another terminal:

  turnlog run %s "What is in this directory?"
  turnlog sessions ls %s
  observer tail %s

Ctrl-C ends it; sessions are kept.
`, url, at, at, at)
}

// untilInterrupted runs do until the first signal, which is how it is meant to end.
func (a *app) untilInterrupted(ctx context.Context, do func(context.Context) error) error {
	err := a.interruptible(ctx, do)
	if isInterrupt(err) {
		return nil
	}
	return err
}
