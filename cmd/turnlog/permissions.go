package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
)

func newPermissionsCommand(a *app) *cobra.Command {
	var g jetstream.Grant
	cmd := &cobra.Command{
		Use:   "permissions ROLE...",
		Short: "Print what NATS has to let a user of a deployment do",
		Long: `Prints the NATS permissions of a user, from what the programs of its role publish, hear and ask
the server for. Everything else is then forbidden. It needs no server.

Roles:
  client       opens sessions, brings input, cancels, reads: turnlog run, chat, task, send, sessions
  approver     decides approvals and about dead letters, and reads: turnlog approvals, approve,
               deny, dead
  driver       drives sessions: driver-node
  worker       runs the calls of one queue: tool-worker
  observer     reads journals: observer
  scheduler    says what is to happen when: turnlog schedule; as a client, too, turnlog send --at
  keeper       deletes sessions and blobs that nothing names: turnlog sessions rm, turnlog gc
  provisioner  creates the streams and queues, publishes agents: turnlog provision, turnlog agents publish

Somebody with several roles names all of them. A worker that offers sub-agents is client and
approver, too.

Whoever may hear a reply sees what it tells, so every user, or every group that may know the
same, has an inbox prefix of its own: give it to the program with --inbox-prefix, or to the
context of the nats command.

docs/permissions.md says what the permissions do not hold.`,
		Example: `  turnlog permissions client
  turnlog permissions worker --queue gpu > worker-gpu.conf
  turnlog permissions worker client approver --queue default --inbox-prefix _INBOX_crew
  turnlog permissions driver --namespace team-a -o json | jq .permissions`,
		ValidArgs: roleNames(),
	}
	fs := cmd.Flags()
	fs.StringVar(&g.Namespace, "namespace", "", "`name` of the deployment on its server, default "+jetstream.DefaultNamespace+" [TURNLOG_NAMESPACE]")
	fs.StringVar(&g.Queue, "queue", "", "`name` of the queue of a worker")
	fs.StringVar(&g.Inbox, "inbox-prefix", "", "`text` that the subjects of replies to the user begin with; default: _INBOX_ and the role")
	output := cli.OutputFlag(cmd, "conf", "json")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		for _, arg := range args {
			if r := jetstream.Role(arg); !slices.Contains(g.Roles, r) {
				g.Roles = append(g.Roles, r)
			}
		}
		g.Namespace = cmp.Or(g.Namespace, a.getenv("TURNLOG_NAMESPACE"), jetstream.DefaultNamespace)
		g.Inbox = cmp.Or(g.Inbox, inboxOf(g))
		p, err := permissionsOf(g)
		if err != nil {
			return err
		}
		if output.String() == "json" {
			return writeJSON(a.term.out, permissionsReport(g, p))
		}
		_, err = fmt.Fprintf(a.term.out, "# A user of the deployment %s: %s. Its programs connect with\n# --inbox-prefix %s.\n%s",
			g.Namespace, whoIs(g), g.Inbox, p.Conf())
		return err
	}
	return cmd
}

func roleNames() []string {
	var out []string
	for _, r := range jetstream.Grantable() {
		out = append(out, string(r))
	}
	return out
}

// permissionsOf checks what was given on the command line.
func permissionsOf(g jetstream.Grant) (jetstream.Permissions, error) {
	for _, r := range g.Roles {
		if !slices.Contains(jetstream.Grantable(), r) {
			return jetstream.Permissions{}, usageError("role %q is unknown: use %s", string(r), strings.Join(roleNames(), ", "))
		}
	}
	switch worker := slices.Contains(g.Roles, jetstream.RoleWorker); {
	case worker && g.Queue == "":
		return jetstream.Permissions{}, usageError("a worker needs a --queue: its permissions are for one")
	case !worker && g.Queue != "":
		return jetstream.Permissions{}, usageError("--queue %s: only a worker has a queue", g.Queue)
	}
	p, err := jetstream.PermissionsOf(g)
	if err != nil {
		return p, usageError("%w", err)
	}
	return p, nil
}

// inboxOf is the inbox prefix of a user that has none of its own.
func inboxOf(g jetstream.Grant) string {
	words := []string{"_INBOX"}
	for _, r := range g.Roles {
		words = append(words, string(r))
	}
	if g.Queue != "" {
		words = append(words, g.Queue)
	}
	return strings.Join(words, "_")
}

// whoIs names the roles, and the queue.
func whoIs(g jetstream.Grant) string {
	var words []string
	for _, r := range g.Roles {
		word := string(r)
		if r == jetstream.RoleWorker {
			word += " of the queue " + g.Queue
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// permissionsJSON is what "turnlog permissions -o json" prints. Its member permissions
// is also what a user has in a configuration file of nats-server.
type permissionsJSON struct {
	Namespace   string           `json:"namespace"`
	Roles       []jetstream.Role `json:"roles"`
	Queue       string           `json:"queue,omitempty"`
	InboxPrefix string           `json:"inbox_prefix"`
	Permissions struct {
		Publish   allowList `json:"publish"`
		Subscribe allowList `json:"subscribe"`
		Responses bool      `json:"allow_responses,omitempty"`
	} `json:"permissions"`
}

type allowList struct {
	Allow []string `json:"allow"`
}

func permissionsReport(g jetstream.Grant, p jetstream.Permissions) permissionsJSON {
	out := permissionsJSON{Namespace: g.Namespace, Roles: g.Roles, Queue: g.Queue, InboxPrefix: g.Inbox}
	out.Permissions.Publish.Allow, out.Permissions.Subscribe.Allow = p.Publish, p.Subscribe
	out.Permissions.Responses = p.Responses
	return out
}
