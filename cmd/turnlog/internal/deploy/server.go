package deploy

import (
	"cmp"
	"context"
	"fmt"
	"net"
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
	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/jetstream"
)

// serverFlags are the flags that the commands server and dev share.
type serverFlags struct {
	listen, store, namespace string
	open                     bool       // the server needs no token of its own
	users                    *roleUsers // nil: the server has no users with roles
	getenv                   func(string) string
}

func (f *serverFlags) register(cmd *cobra.Command, store string) {
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:4222", "`address` for NATS clients; port 0 selects a free port")
	fs.StringVar(&f.store, "store", "", "`directory` for the streams; default: "+store)
	fs.StringVar(&f.namespace, "namespace", jetstream.DefaultNamespace, "`name` of the deployment on its server")
	fs.BoolVar(&f.open, "open", false, "let every program that reaches the address connect: it can then run commands as the user of each worker")
}

// admits is the part of the help about who may connect.
const admits = `

Only programs of the user who started it can connect: the server requires a token, which is stored in the
nats command's context turnlog-PORT, a file that only that user can read. Turnlog's programs find the token by the
server's address; other programs need it with "nats --context turnlog-4222" or --token. --open turns this off.`

// lone holds the flags of "turnlog server".
type lone struct {
	serverFlags

	app                      *app.App
	user, password, monitor  string
	sync, noProvision, roles bool
}

// Server returns the command that runs only a NATS server.
func Server(a *app.App) *cobra.Command {
	f := lone{app: a, serverFlags: serverFlags{getenv: a.Getenv}}
	cmd := &cobra.Command{
		Use:   "server [USER...]",
		Short: "Run only the NATS server, with the deployment's streams",
		Long: `Runs a NATS server with JetStream until it is interrupted, and creates the deployment's
streams on it. It is one server on one machine: for replicas, run a NATS cluster.` + admits + `
With --user, that user's name and password replace the token.

With --roles, it creates a user for each role, in NATS accounts that also stop hostile users: no user can
do more than its role. The password of each user is stored in the nats command's context
turnlog-PORT-USER, which only you can read; programs connect with --context. The command prints which
programs each user is for. Passwords stay the same when it is started again. Arguments name other users:
one or more roles, the queue of a worker, and a name, as in worker/gpu or client+approver:ada. Without
arguments, there is a user for each role, and a worker of the queue "default".`,
		Example: `  turnlog server --store /var/lib/turnlog
  turnlog server --listen 127.0.0.1:0 --store /tmp/try
  turnlog server --roles --store /var/lib/turnlog
  turnlog server --roles --store /var/lib/turnlog driver client:ada client+approver:bob worker/default
  turnlog server --listen :4222 --store /var/lib/turnlog --sync --user ops --password "$PASSWORD"`,
	}
	f.register(cmd, "in memory, lost when the process ends")
	settings.Lasts(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&f.sync, "sync", false, "sync each write to disk before acknowledging it")
	fs.StringVar(&f.user, "user", "", "accept only this `user`, with --password")
	fs.StringVar(&f.password, "password", "", "the user's `password`")
	fs.StringVar(&f.monitor, "monitor", "", "serve the server's monitoring pages, such as /jsz, over HTTP at this `address`, like 127.0.0.1:8222, without authentication")
	fs.BoolVar(&f.noProvision, "no-provision", false, "do not create the deployment's streams")
	fs.BoolVar(&f.roles, "roles", false, "create a user for each role, in separate NATS accounts")
	cmd.MarkFlagsMutuallyExclusive("open", "user", "roles")
	logs := cli.NewLog(cmd, zapcore.InfoLevel)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && !f.roles {
			return cli.Usage("user %s: users need --roles", args[0])
		}
		return a.UntilInterrupted(cmd.Context(), func(ctx context.Context) error {
			return f.run(ctx, args, logs.Logger(a.Err, a.Getenv))
		})
	}
	return cmd
}

// run runs the server until ctx ends.
func (f *lone) run(ctx context.Context, users []string, log *zap.Logger) (err error) {
	if _, err := jetstream.ParseNamespace(f.namespace); err != nil {
		return cli.Usage("--%w", err)
	}
	var opts []embedded.Option
	if f.sync {
		opts = append(opts, embedded.WithSync())
	}
	if f.monitor != "" {
		opts = append(opts, embedded.WithMonitor(f.monitor))
	}
	if f.user != "" || f.password != "" {
		f.open = true
		opts = append(opts, embedded.WithUser(f.user, f.password))
	}
	if f.roles {
		if f.users, err = f.parseUsers(users); err != nil {
			return err
		}
	}
	srv, stop, err := f.start(ctx, log, opts...)
	if err != nil {
		return err
	}
	defer stop()
	if url := srv.MonitorURL(); url != "" {
		log.Info("monitoring", zap.String("url", url))
	}
	if !f.noProvision {
		if _, err := provisionOn(ctx, srv, f.namespace, f.users.options(), f.users.queues()...); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintln(f.app.Out, srv.ClientURL()) // the port, if 0 was given
	f.users.printPrograms(f.app.Out, srv.ClientURL())
	<-ctx.Done()
	log.Info("stopping")
	return context.Cause(ctx)
}

// start starts the server that the flags describe, and writes the contexts that admit its users. stop
// ends it, and removes the contexts that no later start can use.
func (f *serverFlags) start(ctx context.Context, log *zap.Logger, opts ...embedded.Option) (srv *embedded.Server, stop func(), err error) {
	opts = append(opts, embedded.WithLogger(log))
	var logins []natscli.Login
	switch {
	case f.users != nil:
		logins = f.users.logins
		opts = append(opts, embedded.WithSettings(f.users.settings))
	case f.listen != "" && !f.open:
		token := natscli.NewSecret()
		logins = []natscli.Login{{Token: token}}
		opts = append(opts, embedded.WithToken(token))
	}
	if f.listen != "" {
		opts = append(opts, embedded.WithListener(f.listen))
	}
	if f.store != "" {
		opts = append(opts, embedded.WithStore(f.store))
	}
	if err := cmp.Or(embedded.Check(opts...), f.elsewhere()); err != nil {
		return nil, nil, cli.Usage("%w", err)
	}
	log.Info("starting", zap.String("listen", f.listen), zap.String("store", f.store), zap.String("namespace", f.namespace))
	if srv, err = embedded.Start(ctx, opts...); err != nil {
		return nil, nil, err
	}
	var saved []natscli.Local
	stop = func() {
		for _, local := range saved {
			if err := local.Remove(); err != nil {
				log.Warn("context not removed", zap.Error(err))
			}
		}
		srv.Close()
	}
	var names []string
	for _, login := range logins {
		local, err := natscli.SaveLocal(f.getenv, srv.ClientURL(), login)
		if err != nil {
			stop()
			if f.users == nil {
				err = fmt.Errorf("%w: give --open to admit everyone", err)
			}
			return nil, nil, err
		}
		names = append(names, local.Name)
		if f.users == nil || !f.users.lasting {
			saved = append(saved, local)
		}
	}
	if len(names) > 0 {
		log.Info("only programs with these contexts may connect", zap.Strings("contexts", names))
	}
	return srv, stop, nil
}

// elsewhere returns an error if the store has the deployment's streams in a different NATS account than
// the one that the server will use.
func (f *serverFlags) elsewhere() error {
	const shared = "$G" // the account of a server without accounts
	here, there := shared, f.namespace
	if f.users != nil {
		here, there = there, here
	}
	here, there = filepath.Join(f.store, "jetstream", here), filepath.Join(f.store, "jetstream", there)
	_, missing := os.Stat(here)
	if _, err := os.Stat(there); f.store == "" || err != nil || missing == nil {
		return nil //nolint:nilerr // nothing is elsewhere
	}
	how := "with --roles"
	if f.users != nil {
		how = "without --roles"
	}
	return fmt.Errorf("store %s belongs to a server %s: to move its sessions to this one, rename its directory '%s' to '%s'", f.store, how, there, here)
}

// devDrain is how long running calls may take when dev ends.
const devDrain = 10 * time.Second

// Dev returns the command that runs a whole deployment.
func Dev(a *app.App) *cobra.Command {
	l := Local{app: a, serverFlags: serverFlags{getenv: a.Getenv}, models: flags.Models(a).OpenShared, drain: devDrain}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole deployment in this process, for local development",
		Long: `Runs a NATS server that stores its streams on disk, a driver node and a worker, until it is
interrupted. Sessions continue when it is started again. More nodes and workers can connect to its
port.

Read-only calls run, and all others need approval. --policy names a file with other rules.` + admits,
		Example: `  turnlog dev
  turnlog dev --tools fs,shell --allow-write --root ./site
  turnlog dev --policy policy.yaml
  turnlog dev --listen 127.0.0.1:0 --store /tmp/try`,
	}
	l.register(cmd, "turnlog/dev in the user's cache directory")
	settings.Lasts(cmd)
	cli.Group(cmd.Flags(), cli.ToolFlags, func() { l.tools.Register(cmd, toolset.DefaultSet) })
	cli.AgentHooksFlag(cmd, &l.agent.hooks)
	var policy, web string
	var seals cli.SealKey
	seals.Register(cmd, a.Getenv)
	cli.PolicyFlag(cmd, &policy)
	cmd.Flags().StringVar(&web, "gateway", "", "`address` for HTTP clients on this machine; default: "+defaultGateway+", or any free port if --listen has port 0")
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
		if l.ring, err = seals.Ring(); err != nil {
			return err
		}
		if web == "" {
			web = defaultGateway
			if _, port, _ := net.SplitHostPort(l.listen); port == "0" {
				web = "127.0.0.1:0"
			}
		}
		if !isLoopback(web) {
			return cli.Usage("--gateway %s: use an address of this machine: \"turnlog gateway\" serves others", web)
		}
		l.log = logs.Logger(a.Err, a.Getenv)
		l.log.Info("policy", zap.String("name", l.policy.Name), zap.String("digest", l.policy.Digest()))
		l.log.Info("tools", zap.Strings("tools", l.tools.Sets()), zap.String("root", l.tools.Root), zap.Bool("allow_write", l.tools.AllowWrite))
		return a.UntilInterrupted(cmd.Context(), func(ctx context.Context) error {
			return l.within(ctx, func(ctx context.Context, srv *embedded.Server, d *cli.Cell) error {
				at := "--server " + srv.ClientURL()
				if l.namespace != jetstream.DefaultNamespace {
					at += " --namespace " + l.namespace
				}
				cfg, err := l.gatewayOf(d)
				if err != nil {
					return err
				}
				return serveGateway(ctx, a, web, l.log, cfg, func(page string) {
					_, _ = fmt.Fprintf(a.Out, welcome, srv.ClientURL(), at, at, at, page)
				})
			})
		})
	}
	return cmd
}

const welcome = `Turnlog is up at %s. In another terminal of this user:

  turnlog run %s "What is in this directory?"
  turnlog sessions ls %s
  observer tail %s

Its page is at %s

Ctrl-C ends it; sessions are kept.
`
