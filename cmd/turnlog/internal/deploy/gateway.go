package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/doctor"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/jetstream/admin"
)

const (
	// GatewayToken is the variable with the token of a gateway's only operator.
	GatewayToken = "TURNLOG_GATEWAY_TOKEN"

	defaultGateway = "127.0.0.1:8410"
)

// gatewayFlags are the flags of a gateway.
type gatewayFlags struct {
	listen, people string
	hosts          []string
	insecure       bool
	limits         gateway.Limits
	start          flags.Session
}

// Gateway returns the command that serves a deployment over HTTP.
func Gateway(a *app.App) *cobra.Command {
	var f gatewayFlags
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve a deployment over HTTP: sessions, live events, approvals",
		Long: `Serves the sessions of a deployment over HTTP until it is interrupted. docs/gateway.md describes the API, and
GET /openapi.json returns its OpenAPI document. A gateway is stateless, so any number of them can serve the same
deployment behind a load balancer. Clients of OpenAI's API, the AI SDK, AG-UI and MCP can also use it.

Without --people there is one operator, whose token is in TURNLOG_GATEWAY_TOKEN; if that is not set, the command
generates a token and prints it in the URL. With --people, each person has a role, and a token or a login at an
OpenID Connect provider: docs/gateway.md shows the file, and "turnlog gateway token" prints an entry for it.

With --http, /metrics has requests by route and status, response times, open streams, and slow readers.

By default only programs on this machine can reach it. To listen at another address, it needs --people, a token, or
--insecure, with which everyone who reaches the address is an operator.`,
		Example: `  turnlog gateway
  turnlog gateway --listen :8410 --host turnlog.example.com --people people.yaml
  turnlog gateway --agent reviewer --server nats://127.0.0.1:4222`,
	}
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", defaultGateway, "`address` for HTTP clients; port 0 selects a free port")
	fs.StringVar(&f.people, "people", "", "`file` with the people who may use the gateway; default: one operator with a token")
	fs.StringArrayVar(&f.hosts, "host", nil, "host `name` in the URLs of clients; repeatable")
	fs.Float64Var(&f.limits.Requests, "max-requests", 0, "maximum `number` of requests per second of a person; 0: no limit")
	fs.IntVar(&f.limits.Open, "max-open", 0, "maximum `number` of open requests and streams of a person; 0: no limit")
	fs.BoolVar(&f.insecure, "insecure", false, "give everyone who reaches the address the role operator")
	_ = cmd.MarkFlagFilename("people", "yaml", "yml") // the flag exists
	f.start.RegisterStart(cmd)
	address := ops.AddressFlag(cmd)
	settings.Lasts(cmd)
	cmd.MarkFlagsMutuallyExclusive("people", "insecure")
	r := a.RemoteAt(cmd, admin.RoleApprover, zapcore.InfoLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		start, err := f.start.Start(a, false)
		if err != nil {
			return err
		}
		access, err := f.access(a)
		if err != nil {
			return err
		}
		return a.UntilInterrupted(cmd.Context(), func(ctx context.Context) error {
			log := r.Logger()
			cell, err := r.Open(ctx, r.Program(), log, admin.RoleClient, admin.RoleApprover)
			if err != nil {
				return err
			}
			defer cell.Close()
			c, err := r.Client(cell)
			if err != nil {
				return err
			}
			registry := ops.NewRegistry()
			server, err := ops.Listen(ctx, *address, registry, cell.Ready(func() error { return nil }), log)
			if err != nil {
				return err
			}
			return cell.Work(ctx, server.Run, func(ctx context.Context) error {
				return serveGateway(ctx, a, f.listen, log, gateway.Config{
					Client: c, Connected: cell.Conn.IsConnected, Defaults: start.Config, Access: access, Limits: f.limits, Metrics: registry,
					Backlog: admin.Of(cell.Cell).Backlog, Stuck: func(ctx context.Context) ([]report.Finding, error) { return doctor.Stuck(ctx, cell, c) },
				}, func(at string) { _, _ = fmt.Fprintln(a.Out, at) })
			})
		})
	}
	cmd.AddCommand(gatewayToken(a))
	return cmd
}

// access says who may use the gateway that the flags describe.
func (f *gatewayFlags) access(a *app.App) (out people.Access, err error) {
	out = people.Access{Token: a.Getenv(GatewayToken), Operator: a.Person(), Hosts: f.hosts, Open: f.insecure, Loopback: isLoopback(f.listen)}
	for _, h := range f.hosts {
		if h == "" || strings.ContainsAny(h, "/:") {
			return out, cli.Usage("--host %s: give a name without scheme and port, like turnlog.example.com", h)
		}
	}
	if f.people != "" {
		if out.People, err = os.ReadFile(f.people); err != nil {
			return out, cli.Usage("--people: %w", err)
		}
		out.Dir = filepath.Dir(f.people)
	}
	if f.limits.Requests < 0 || f.limits.Open < 0 {
		return out, cli.Usage("--max-requests and --max-open: give 0 or more")
	}
	switch {
	case out.Token != "" && f.people != "":
		return out, cli.Usage("--people and %s: use one of them", GatewayToken)
	case f.insecure:
		out.Token = ""
	case f.people == "" && out.Token == "" && !out.Loopback:
		return out, cli.Usage("--listen %s: other machines can reach it: give --people, set %s, or admit everyone with --insecure", f.listen, GatewayToken)
	case f.people == "" && out.Token == "":
		out.Token = people.NewToken()
	}
	return out, nil
}

// isLoopback reports whether only programs of this machine reach an address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, bad := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || bad == nil && ip.IsLoopback())
}

// serveGateway serves until ctx ends. It passes the address to up, with the token if it was made here.
func serveGateway(ctx context.Context, a *app.App, address string, log *zap.Logger, cfg gateway.Config, up func(at string)) error {
	cfg.Logger, cfg.Version, cfg.Models = log.Named("gateway"), cli.Version(), flags.Models(a)
	g, err := gateway.New(cfg)
	if errors.Is(err, people.ErrAccess) {
		return cli.Usage("%w", err)
	}
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return cli.Usage("listen at %s: %w: give a free address of this machine", address, err)
	}
	at := url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/"}
	if cfg.Access.Token != "" && a.Getenv(GatewayToken) == "" {
		at.RawQuery = url.Values{"token": {cfg.Access.Token}}.Encode()
	}
	up(at.String())
	return g.Serve(ctx, l)
}

// gatewayOf returns a gateway of the deployment in this process.
func (l Local) gatewayOf(d *cli.Cell) (gateway.Config, error) {
	start, err := flags.DefaultStart(l.app)
	if err != nil {
		return gateway.Config{}, err
	}
	c, err := client.Open(d.Conn, d.Namespace(), client.WithLogger(l.log), client.WithName(l.app.Person()), client.WithSealKeys(d.SealRing()))
	return gateway.Config{
		Client: c, Connected: d.Conn.IsConnected, Defaults: start, Backlog: admin.Of(d.Cell).Backlog,
		Stuck:  func(ctx context.Context) ([]report.Finding, error) { return doctor.Stuck(ctx, d, c) },
		Access: people.Access{Token: cmp.Or(l.app.Getenv(GatewayToken), people.NewToken()), Operator: l.app.Person(), Loopback: true},
	}, err
}

func gatewayToken(a *app.App) *cobra.Command {
	var p people.Person
	role := cli.NewChoice(string(people.Viewer), string(people.User), string(people.Approver), string(people.Operator))
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Generate a token for a person, and the entry for the --people file",
		Long: `Prints an entry for the --people file with the hash of a new token, and the token itself on stderr. The token
is not stored, so it cannot be shown again. Journals record NAME as the sender of the person's commands. The
output begins with the line "people:"; leave it out when you add an entry to an existing file.`,
		Example: `  turnlog gateway token ada --role operator > people.yaml
  turnlog gateway token bob --role approver --agent 'review-*' | tail -n +2 >> people.yaml`,
	}
	role.Register(cmd, "role", "", "what the person may do")
	cmd.Flags().StringArrayVar(&p.Agents, "agent", nil, "`pattern` of the agents that the role applies to; repeatable; default: all")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		token := people.NewToken()
		p.Name, p.Role = args[0], people.Role(role.String())
		entry, err := people.Entry(p, token)
		if err != nil {
			return cli.Usage("%w", err)
		}
		if _, err := fmt.Fprint(a.Out, entry); err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.Err, "the token of %s: %s\n", p.Name, token)
		return err
	}
	return cmd
}
