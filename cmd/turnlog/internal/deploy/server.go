package deploy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/jetstream"
)

// serverFlags are those that the commands server and dev share.
type serverFlags struct {
	listen, store, namespace string
	open                     bool // the server needs no token of its own
	getenv                   func(string) string
}

func (f *serverFlags) register(cmd *cobra.Command, store string) {
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:4222", "`address` for NATS clients; port 0 takes any free one")
	fs.StringVar(&f.store, "store", "", "`directory` for the streams; default: "+store)
	fs.StringVar(&f.namespace, "namespace", jetstream.DefaultNamespace, "`name` of the deployment on its server")
	fs.BoolVar(&f.open, "open", false, "admit all programs that reach the address: they may run commands as the user of every worker")
}

// admits is what the help says about who may connect.
const admits = `

Only programs of the user who started it may connect: the server has a token, which is in a context of
the nats command that only that user can read, turnlog-PORT. Turnlog's programs find it by the server's
address; "nats --context turnlog-4222" and --token work for others. --open turns this off.`

// Server returns the command that runs only a NATS server.
func Server(a *app.App) *cobra.Command {
	f := serverFlags{getenv: a.Getenv}
	var user, password string
	var sync, noProvision bool
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run only the NATS server, with the deployment's streams",
		Long: `Runs a NATS server with JetStream until it is interrupted, and creates the deployment's
streams on it. It is one server on one machine: for replicas, run a NATS cluster.` + admits + `
With --user, that user's name and password replace the token.`,
		Example: `  turnlog server --store /var/lib/turnlog
  turnlog server --listen 127.0.0.1:0 --store /tmp/try
  turnlog server --listen :4222 --store /var/lib/turnlog --sync --user ops --password "$PASSWORD"`,
	}
	f.register(cmd, "in memory, gone with the process")
	fs := cmd.Flags()
	fs.BoolVar(&sync, "sync", false, "sync every write to disk before it is acknowledged")
	fs.StringVar(&user, "user", "", "accept only this `user`, with --password")
	fs.StringVar(&password, "password", "", "the user's `password`")
	fs.BoolVar(&noProvision, "no-provision", false, "do not create the deployment's streams")
	cmd.MarkFlagsMutuallyExclusive("open", "user")
	logs := cli.NewLog(cmd, zapcore.InfoLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log := logs.Logger(a.Err, a.Getenv)
		var opts []embedded.Option
		if sync {
			opts = append(opts, embedded.WithSync())
		}
		if user != "" || password != "" {
			f.open = true
			opts = append(opts, embedded.WithUser(user, password))
		}
		return a.UntilInterrupted(cmd.Context(), func(ctx context.Context) error {
			if _, err := jetstream.ParseNamespace(f.namespace); err != nil {
				return cli.Usage("--%w", err)
			}
			srv, stop, err := f.start(ctx, log, opts...)
			if err != nil {
				return err
			}
			defer stop()
			if !noProvision {
				if _, err := provisionOn(ctx, srv, f.namespace); err != nil {
					return err
				}
			}
			_, _ = fmt.Fprintln(a.Out, srv.ClientURL()) // the port, if 0 was given
			<-ctx.Done()
			log.Info("stopping")
			return context.Cause(ctx)
		})
	}
	return cmd
}

// start starts the server that the flags describe, and writes the context that admits its user.
// stop ends both.
func (f *serverFlags) start(ctx context.Context, log *zap.Logger, opts ...embedded.Option) (srv *embedded.Server, stop func(), err error) {
	opts = append(opts, embedded.WithLogger(log))
	token := ""
	if f.listen != "" {
		opts = append(opts, embedded.WithListener(f.listen))
		if !f.open {
			token = natscli.NewToken()
			opts = append(opts, embedded.WithToken(token))
		}
	}
	if f.store != "" {
		opts = append(opts, embedded.WithStore(f.store))
	}
	if err := embedded.Check(opts...); err != nil {
		return nil, nil, cli.Usage("%w", err)
	}
	log.Info("starting", zap.String("listen", f.listen), zap.String("store", f.store), zap.String("namespace", f.namespace))
	srv, err = embedded.Start(ctx, opts...)
	if err != nil || token == "" {
		return srv, srv.Close, err
	}
	local, err := natscli.SaveLocal(f.getenv, srv.ClientURL(), token)
	if err != nil {
		srv.Close()
		return nil, nil, fmt.Errorf("%w: give --open to admit everyone", err)
	}
	log.Info("only programs of this user may connect", zap.String("context", local.Name), zap.String("file", local.File))
	return srv, func() {
		if err := local.Remove(); err != nil {
			log.Warn("context not removed", zap.Error(err))
		}
		srv.Close()
	}, nil
}

// devDrain is how long running calls may take when dev ends.
const devDrain = 10 * time.Second

// Dev returns the command that runs a whole deployment.
func Dev(a *app.App) *cobra.Command {
	l := Local{app: a, serverFlags: serverFlags{getenv: a.Getenv}, models: flags.Models(a).OpenShared, drain: devDrain}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole deployment in this process, on disk and with a port",
		Long: `Runs a NATS server that keeps its streams on disk, a driver node and a worker, until it is
interrupted. Sessions are still there when it starts again. More nodes and workers may join it
over the port.

Sessions run calls that only read, and ask a person about all others: --policy names a file with
other rules.` + admits,
		Example: `  turnlog dev
  turnlog dev --tools fs,shell --allow-write --root ./site
  turnlog dev --policy policy.yaml
  turnlog dev --listen 127.0.0.1:0 --store /tmp/try`,
	}
	l.register(cmd, "turnlog/dev in the user's cache directory")
	l.tools.Register(cmd)
	cli.AgentHooksFlag(cmd, &l.agent.hooks)
	var policy string
	cli.PolicyFlag(cmd, &policy)
	logs := cli.NewLog(cmd, zapcore.InfoLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if l.store == "" {
			cache, err := os.UserCacheDir()
			if err != nil {
				return cli.Usage("no directory for the streams: %w: give --store", err)
			}
			l.store = filepath.Join(cache, "turnlog", "dev")
		}
		var err error
		if l.policy, err = toolset.Policy(policy); err != nil {
			return cli.Usage("%w", err)
		}
		l.log = logs.Logger(a.Err, a.Getenv)
		l.log.Info("policy", zap.String("name", l.policy.Name), zap.String("digest", l.policy.Digest()))
		l.log.Info("tools", zap.Strings("tools", l.tools.Sets()), zap.String("root", l.tools.Root), zap.Bool("allow_write", l.tools.AllowWrite))
		return a.UntilInterrupted(cmd.Context(), func(ctx context.Context) error {
			return l.within(ctx, func(ctx context.Context, srv *embedded.Server, _ *cli.Cell) error {
				at := "--server " + srv.ClientURL()
				if l.namespace != jetstream.DefaultNamespace {
					at += " --namespace " + l.namespace
				}
				_, _ = fmt.Fprintf(a.Out, welcome, srv.ClientURL(), at, at, at)
				<-ctx.Done()
				return context.Cause(ctx)
			})
		})
	}
	return cmd
}

const welcome = `Turnlog is up at %s. In another terminal of this user:

  turnlog run %s "What is in this directory?"
  turnlog sessions ls %s
  observer tail %s

Ctrl-C ends it; sessions are kept.
`
