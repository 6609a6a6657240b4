package deploy

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// granting holds the flags of "turnlog permissions".
type granting struct {
	admin.Grant

	accounts bool
	jwt      keyring
	output   app.Output
}

const permissionsHelp = `Prints the NATS permissions of a user: exactly what the programs of its role publish, subscribe
to and request. It needs no server.

Roles:
  client       opens sessions, sends input, cancels, reads: turnlog run, chat, task, send, sessions
  approver     decides about approvals and dead letters, and reads: turnlog approvals, approve,
               deny, dead
  driver       drives sessions: driver-node
  worker       runs the calls of one queue: tool-worker
  observer     reads journals: observer
  scheduler    manages schedules: turnlog schedule; with client also turnlog send --at
  keeper       deletes sessions and unused blobs: turnlog sessions rm, turnlog gc
  provisioner  creates and copies the streams, publishes agents: turnlog provision, backup, agents publish
  doctor       examines the deployment and changes nothing: turnlog doctor
  notary       logs the heads of sessions: turnlog notary
  messenger    sends webhooks: turnlog webhooks
  service      is a microservice of NATS that tool-worker --nats-service calls; it has no part in the
               deployment

For a user with several roles, name all of them. A worker that offers sub-agents also needs the roles
client and approver.

With --user, the commands and decisions of the user are recorded under that name as verified, since no
other user has the permission to send commands under it. Without --user, the name in a command is
recorded as claimed, not verified.

A user who can subscribe to the subject of a reply can read it. So each user has a separate inbox
prefix, which its programs must use: with --inbox-prefix, or from the context of the nats command. The
prefix of a user with a name is _USER_ and the name.

Within one NATS account, permissions prevent mistakes, not attacks. With --accounts, the command prints
a configuration of nats-server that also stops hostile users: an account for the cell and one for each
combination of roles. The arguments are users: one or more roles, the queue of a worker, and a name:
client, worker/gpu, client+approver:ada. A worker that calls microservices names them, as in
worker/office@billing; each is a user in the account of that worker. The server reads the passwords from
environment variables, which the output names. Without arguments, there is a user for each role, and a
worker of the queue "default".

With --jwt, the accounts and users are JWTs, for servers in operator mode. The command creates the keys
of an operator, the accounts and the users, or uses those in the directory. It writes the JWTs and the
users' credentials to the directory, and prints the configuration of a server with those accounts.

docs/permissions.md lists what each layout enforces.`

// Permissions returns the command that prints the NATS permissions of roles.
func Permissions(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "permissions [ROLE...]",
		Short: "Print the NATS permissions that a user of a deployment needs",
		Long:  permissionsHelp,
		Example: `  turnlog permissions client
  turnlog permissions client approver --user ada
  turnlog permissions worker --queue gpu > worker-gpu.conf
  turnlog permissions worker --queue office --nats-service billing
  turnlog permissions worker client approver --queue default --inbox-prefix _INBOX_crew
  turnlog permissions driver --namespace team-a -o json | jq .permissions
  turnlog permissions --accounts > accounts.conf
  turnlog permissions --accounts driver provisioner client:ada client+approver:bob worker/default
  turnlog permissions --accounts --jwt ./keys > operator.conf`,
		ValidArgs: append(grantable(), string(admin.RoleService)),
	}
	var g granting
	fs := cmd.Flags()
	fs.StringVar(&g.Namespace, "namespace", "", "`name` of the deployment on its server, default "+jetstream.DefaultNamespace+" [TURNLOG_NAMESPACE]")
	fs.StringVar(&g.Queue, "queue", "", "`name` of the queue of a worker")
	fs.StringArrayVar(&g.Services, "nats-service", nil, "`name` of the microservice: for a worker, one that it calls; for a service, its own; repeatable")
	fs.StringVar(&g.User, "user", "", "`name` of the user in its commands, which no other user can use")
	fs.StringVar(&g.Inbox, "inbox-prefix", "", "`prefix` of the subjects of replies to the user; default: _USER_ and the name, or _INBOX_ and the role")
	fs.BoolVar(&g.accounts, "accounts", false, "print NATS accounts, one for each combination of roles")
	fs.StringVar((*string)(&g.jwt), "jwt", "", "print the accounts as JWTs, with keys and credentials in a `directory`")
	_ = cmd.MarkFlagDirname("jwt") // the flag exists
	g.output = a.Output(cmd, "conf", "json")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		g.Namespace = cmp.Or(g.Namespace, a.Getenv("TURNLOG_NAMESPACE"), jetstream.DefaultNamespace)
		switch {
		case g.accounts:
			return printAccounts(g.output, g.Grant, args, g.jwt)
		case g.jwt != "":
			return cli.Usage("--jwt is for --accounts")
		}
		return g.print(args)
	}
	return cmd
}

// grantable returns the names of the roles.
func grantable() (out []string) {
	for _, r := range admin.Grantable() {
		out = append(out, string(r))
	}
	return out
}

// print prints the permissions of a user with roles.
func (g *granting) print(roles []string) error {
	if len(roles) == 0 {
		return cli.Usage("argument ROLE is missing: use %s, or --accounts", strings.Join(grantable(), ", "))
	}
	for _, name := range roles {
		if name != string(admin.RoleService) && !slices.Contains(grantable(), name) {
			return cli.Usage("role %q is unknown: use %s", name, strings.Join(grantable(), ", "))
		}
		if r := admin.Role(name); !slices.Contains(g.Roles, r) {
			g.Roles = append(g.Roles, r)
		}
	}
	if slices.Contains(g.Roles, admin.RoleWorker) && g.Queue == "" {
		return cli.Usage("a worker needs a --queue: its permissions are for one queue")
	}
	if slices.Contains(g.Roles, admin.RoleService) && len(g.Services) == 0 {
		return cli.Usage("a service needs a --nats-service: its name, by which workers call it")
	}
	if g.Inbox == "" && g.User == "" {
		g.Inbox = "_INBOX_" + joined(g.Roles, "_")
		if slices.Contains(g.Roles, admin.RoleService) {
			g.Inbox += "_" + strings.Join(g.Services, "_")
		}
		if g.Queue != "" {
			g.Inbox += "_" + g.Queue
		}
	}
	p, err := admin.PermissionsOf(g.Grant)
	if err != nil {
		return cli.Usage("%w", err)
	}
	return g.output.Print(permissionsReport(g.Grant, p), func(w io.Writer) error {
		who := strings.TrimPrefix(g.User+", ", ", ") + strings.Replace(joined(g.Roles, ", "), "worker", "worker of the queue "+g.Queue, 1)
		if len(g.Services) > 0 {
			who += ", for the NATS service " + strings.Join(g.Services, ", ")
		}
		_, err := fmt.Fprintf(w, "# A user of the deployment %s: %s. Its programs connect with\n# --inbox-prefix %s.\n%s", g.Namespace, who, g.Prefix(), p.Conf())
		return err
	})
}

func joined(roles []admin.Role, sep string) string {
	var words []string
	for _, r := range roles {
		words = append(words, string(r))
	}
	return strings.Join(words, sep)
}

// permissionsReport is what -o json prints. Its member permissions is also what a user has
// in a configuration file of nats-server.
func permissionsReport(g admin.Grant, p admin.Permissions) any {
	type list struct {
		Allow []string `json:"allow"`
	}
	type permissions struct {
		Publish   list `json:"publish"`
		Subscribe list `json:"subscribe"`
		Responses any  `json:"allow_responses,omitempty"`
	}
	may := permissions{Publish: list{p.Publish}, Subscribe: list{p.Subscribe}}
	switch {
	case p.Responses == 1:
		may.Responses = true
	case p.Responses > 1:
		may.Responses = map[string]any{"max": p.Responses, "expires": admin.MaxCall.String()}
	}
	return struct {
		Namespace   string       `json:"namespace"`
		Roles       []admin.Role `json:"roles"`
		Queue       string       `json:"queue,omitempty"`
		Services    []string     `json:"nats_services,omitempty"`
		User        string       `json:"user,omitempty"`
		InboxPrefix string       `json:"inbox_prefix"`
		Permissions permissions  `json:"permissions"`
	}{g.Namespace, g.Roles, g.Queue, g.Services, g.User, g.Prefix(), may}
}
