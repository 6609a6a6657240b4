package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Permissions is everything that a user may do: the subjects that it may publish and subscribe to.
// Responses allows one reply to each request, on any subject.
type Permissions struct {
	Publish   []string
	Subscribe []string
	Responses bool
}

// Grant names the user that permissions are for.
type Grant struct {
	Namespace string // "": DefaultNamespace
	Roles     []Role // one or more
	Queue     string // of a worker, which gets permissions for one queue
	Inbox     string // prefix of replies to this user, which others must not be able to subscribe to
}

// ErrBadGrant is returned for an invalid grant. Correct it.
var ErrBadGrant = errors.New("invalid grant")

// Grantable returns the roles that permissions can be granted for.
func Grantable() []Role {
	return []Role{RoleClient, RoleApprover, RoleDriver, RoleWorker, RoleObserver, RoleScheduler, RoleKeeper, RoleProvisioner}
}

// PermissionsOf returns what the code of the roles needs in a cell, as far as NATS can tell
// subjects apart: the subjects that they write and hear according to the table, and the requests
// to the server's API with which they read streams.
func PermissionsOf(g Grant) (Permissions, error) {
	ns, err := g.check()
	if err != nil {
		return Permissions{}, err
	}
	p := Permissions{Subscribe: []string{g.Inbox + ".>"}}
	for _, role := range g.Roles {
		publish, hear := names{layout.New(ns)}.grant(role, g.Queue)
		p.Publish, p.Subscribe = append(p.Publish, publish...), append(p.Subscribe, hear...)
		p.Responses = p.Responses || role == RoleDriver // to probes of other nodes
	}
	p.Publish, p.Subscribe = tidy(p.Publish), tidy(p.Subscribe)
	return p, nil
}

// grant returns what a role publishes and subscribes to, except its inbox.
func (n names) grant(role Role, queue string) (publish, hear []string) {
	for _, row := range Subjects(n.NS) {
		subject := wildcard(row.Subject, role, queue)
		if slices.Contains(row.Writers, role) {
			publish = append(publish, subject)
		}
		if row.Kept == "" && slices.Contains(row.Readers, role) {
			hear = append(hear, subject)
		}
	}
	return append(publish, n.requests(role, queue)...), hear
}

func (g Grant) check() (namespace string, err error) {
	namespace, err = layout.ParseNamespace(g.Namespace)
	worker := slices.Contains(g.Roles, RoleWorker)
	switch {
	case err != nil:
	case len(g.Roles) == 0:
		err = errors.New("it names no role")
	case worker && !content.IsToken(g.Queue):
		err = fmt.Errorf("a worker needs a queue, not %q", g.Queue)
	case !worker && g.Queue != "":
		err = errors.New("only a worker has a queue")
	case !content.IsToken(g.Inbox):
		err = fmt.Errorf("inbox prefix %q: use letters, digits, '-' or '_'", g.Inbox)
	}
	for _, r := range g.Roles {
		if err == nil && !slices.Contains(Grantable(), r) {
			err = fmt.Errorf("role %q", r)
		}
	}
	if err != nil {
		return "", fmt.Errorf("permissions: %w: %w", ErrBadGrant, err)
	}
	return namespace, nil
}

// wildcard turns a row of the table into a NATS subject.
func wildcard(row string, role Role, queue string) string {
	tokens := strings.Split(row, ".")
	for i, t := range tokens {
		switch {
		case t == "<queue>" && role == RoleWorker:
			tokens[i] = queue
		case strings.HasPrefix(t, "<"):
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}

// tidy sorts subjects and removes duplicates.
func tidy(subjects []string) []string {
	slices.Sort(subjects)
	return slices.Compact(subjects)
}

// Requests to the API for one stream, by purpose.
const (
	toLook   = api.StreamInfo // also lists the subjects of the stream
	toRead   = api.MsgGet     // from the leader
	toScan   = api.DirectGet  // from any replica
	toPurge  = api.StreamPurge
	toDelete = api.MsgDelete
)

// requests returns the subjects of the API that a role's code publishes to. The subjects of a
// stream are in the body of a request, so a user that may read one may read all of them.
func (n names) requests(role Role, queue string) []string {
	var (
		journal   = n.JournalStream()
		inbox     = n.InboxStream()
		timers    = n.TimersStream()
		run       = n.RunStream()
		schedules = n.SchedulesStream()
		tasks     = n.TasksStream()
		catalog   = n.Catalog().Stream()
		nodes     = n.Nodes().Stream()
		snapshots = n.Snapshots().Stream()
		approvals = n.Approvals().Stream()
		dead      = n.Dead().Stream()
		agents    = n.Agents().Stream()
		memory    = n.Memory().Stream()
		blobs     = n.BlobStream()
	)
	switch role {
	case RoleProvisioner:
		return append(n.maintenance(), toRead+agents)
	case RoleScheduler:
		return each([]string{toLook, toRead, toPurge}, schedules)
	case RoleKeeper:
		out := append(each([]string{toPurge}, n.keeps()...), each([]string{toRead}, n.mayName()...)...)
		out = append(out, each([]string{toScan}, journal, snapshots)...)
		out = append(out, each([]string{toLook}, approvals, dead)...)
		return append(out, toLook+journal, toLook+blobs, toRead+blobs, toScan+blobs)
	default:
	}
	out := each([]string{toRead, toScan}, blobs) // every role reads large payloads
	switch role {
	case RoleClient:
		out = append(out, each([]string{toLook, toRead, toScan}, journal)...)
		out = append(out, each([]string{toLook, toRead}, agents)...)
		out = append(out, each([]string{toRead}, snapshots)...)
		out = append(out, each([]string{toScan}, approvals, dead, catalog)...)
	case RoleApprover:
		out = append(out, each([]string{toLook, toRead, toScan}, journal)...)
		out = append(out, each([]string{toRead}, snapshots)...)
		out = append(out, each([]string{toScan}, approvals, dead)...)
	case RoleObserver:
		out = append(out, each([]string{toLook, toRead, toScan}, journal)...)
	case RoleWorker:
		out = append(out, each([]string{toRead}, catalog)...)
		out = append(out, claims(tasks, n.QueueConsumer(queue))...)
	case RoleDriver:
		out = append(out, each([]string{toLook, toRead}, inbox, timers, run, tasks, schedules, snapshots, approvals, dead, agents, memory)...)
		out = append(out, each([]string{toLook, toRead, toScan}, journal)...)
		out = append(out, each([]string{toLook, toRead, toScan}, nodes)...)
		out = append(out, each([]string{toLook}, catalog, blobs)...)
		out = append(out, each([]string{toPurge}, inbox, timers, schedules, blobs)...)
		out = append(out, toDelete+tasks, api.ConsumerInfo+tasks+".*")
		out = append(out, claims(run, n.RunConsumer())...)
		out = append(out, watches(catalog, n.Catalog().Key(layout.OfferKeys+"*"))...)
	case RoleProvisioner, RoleScheduler, RoleKeeper, RoleServer:
	}
	return out
}

func each(requests []string, streams ...string) []string {
	var out []string
	for _, s := range streams {
		for _, r := range requests {
			out = append(out, r+s)
		}
	}
	return out
}

// claims returns what pulling from a durable consumer takes. Answers to deliveries have two forms:
// the newer one names the server's domain and account.
func claims(stream, consumer string) []string {
	of := stream + "." + consumer
	return []string{api.ConsumerInfo + of, api.MsgNext + of, api.AckPrefix + of + ".>", api.AckPrefix + "*.*." + of + ".>"}
}

// watches returns what following the keys of a bucket with the client's watcher takes: a consumer
// that it creates and deletes, and flow control, again in two forms.
func watches(stream, keys string) []string {
	const create, drop, pace = "$JS.API.CONSUMER.CREATE.", "$JS.API.CONSUMER.DELETE.", "$JS.FC."
	return []string{create + stream + ".*." + keys, drop + stream + ".*", pace + stream + ".>", pace + "*.*." + stream + ".>"}
}

// maintenance returns what creating and maintaining the cell takes.
func (n names) maintenance() []string {
	out := []string{"$JS.API.STREAM.NAMES"}
	for _, r := range Topology(n.NS, Config{}) {
		for _, verb := range []string{"CREATE", "UPDATE", "INFO", "PURGE", "DELETE"} {
			out = append(out, "$JS.API.STREAM."+verb+"."+r.Stream)
		}
		for _, verb := range []string{"CREATE", "INFO", "DELETE"} {
			out = append(out, "$JS.API.CONSUMER."+verb+"."+r.Stream+".>")
		}
	}
	return out
}

// Conf returns p in the syntax of nats-server's configuration files, as a user's permissions.
func (p Permissions) Conf() string {
	var b strings.Builder
	b.WriteString("permissions: {\n")
	for _, way := range []struct {
		name  string
		allow []string
	}{{"publish", p.Publish}, {"subscribe", p.Subscribe}} {
		fmt.Fprintf(&b, "  %s: {\n    allow: [\n", way.name)
		for _, s := range way.allow {
			fmt.Fprintf(&b, "      %q\n", s)
		}
		b.WriteString("    ]\n  }\n")
	}
	if p.Responses {
		b.WriteString("  allow_responses: true\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// Allowed returns the roles whose permissions allow what was denied to a user of the cell.
func (c *Cell) Allowed(d *api.DeniedError) []Role {
	return slices.DeleteFunc(Grantable(), func(r Role) bool {
		publish, hear := c.names.grant(r, "*")
		if d.Hearing {
			publish = hear
		}
		return !slices.ContainsFunc(publish, func(pattern string) bool { return covers(pattern, d.Subject) })
	})
}

// covers reports whether a pattern of subjects includes a subject, which may be a pattern.
func covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s):
			return false
		case token != s[i]:
			start, any := strings.CutSuffix(token, "*") // q_* names the consumers of all queues
			if !any || !strings.HasPrefix(s[i], start) {
				return false
			}
		}
	}
	return len(p) == len(s)
}
