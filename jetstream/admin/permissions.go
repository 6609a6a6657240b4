package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Permissions are the subjects that a user may publish and subscribe to, and how many replies it may send
// to each request, on any subject. A subscription "SUBJECT GROUP" is allowed only
// in that queue group.
type Permissions struct {
	Publish   []string
	Subscribe []string
	Responses int
}

// Grant names the user that permissions are for.
type Grant struct {
	Namespace string   // "": DefaultNamespace
	Roles     []Role   // one or more
	Queue     string   // of a worker, whose permissions are for this one queue only
	Services  []string // microservices that a worker calls, or that a service provides
	Inbox     string   // prefix for replies to this user, where no other user may subscribe; "": that of User

	// User is the name that the user sends commands under, which no other user of the cell may use. Journals
	// record it as verified. "": no name, and the name in a command is a claim.
	User string
}

// Prefix returns the prefix for replies to the user. The user's programs connect with it.
func (g Grant) Prefix() string {
	if g.User != "" {
		return layout.InboxOf(g.User)
	}
	return g.Inbox
}

// ErrBadGrant is returned for an invalid grant. Correct it.
var ErrBadGrant = errors.New("invalid grant")

// Grantable returns the roles in a cell that permissions can be granted for. RoleService is granted
// separately.
func Grantable() []Role {
	return []Role{RoleClient, RoleApprover, RoleDriver, RoleWorker, RoleObserver, RoleScheduler, RoleKeeper, RoleProvisioner, RoleDoctor, RoleNotary, RoleMessenger}
}

// PermissionsOf returns the permissions that the code of the roles needs in a cell: the subjects that they
// write and read according to Subjects, and the requests to the server's API that read streams.
func PermissionsOf(g Grant) (Permissions, error) {
	ns, err := g.check()
	if err != nil {
		return Permissions{}, err
	}
	p := Permissions{Subscribe: []string{g.Prefix() + ".>"}}
	for _, role := range g.Roles {
		publish, hear := names{layout.New(ns)}.grant(role, g.Queue, g.User)
		p.Publish, p.Subscribe = append(p.Publish, publish...), append(p.Subscribe, hear...)
		if role == RoleDriver {
			p.Responses = 1 // to other nodes' probes and workers' reports
		}
	}
	publish, hear := g.local()
	p.Publish, p.Subscribe = append(p.Publish, publish...), append(p.Subscribe, hear...)
	if slices.Contains(g.Roles, RoleService) {
		p.Responses = maxProgress
	}
	p.Publish, p.Subscribe = sortUnique(p.Publish), sortUnique(p.Subscribe)
	return p, nil
}

// MaxCall is how long a microservice may answer a call.
const MaxCall = 24 * time.Hour

// maxProgress is how many answers to a call a microservice may send. All but the last report progress.
const maxProgress = 10_000

// local returns the subjects of microservices. They are between a worker and its services, outside the
// cell: a worker asks what the services offer and calls them, and every instance of a service receives
// that.
func (g Grant) local() (publish, hear []string) {
	for _, name := range g.Services {
		if !slices.Contains(g.Roles, RoleService) {
			publish = append(publish, "$SRV.INFO."+name, name+".>")
			continue
		}
		publish = append(publish, name+".>") // an empty list would allow everything
		hear = append(hear, name+".>")
		for _, verb := range []string{"PING", "INFO", "STATS"} {
			hear = append(hear, "$SRV."+verb, "$SRV."+verb+"."+name, "$SRV."+verb+"."+name+".*")
		}
	}
	return publish, hear
}

// ofUser is the end of the subjects that a named user sends on.
const ofUser = ".<user>"

// grant returns what a role publishes and subscribes to, except its inbox. A named user sends commands,
// schedules and deletions only under its name. A driver forwards what schedules send, under any user's
// name.
func (n names) grant(role Role, queue, user string) (publish, hear []string) {
	rows := Subjects(n.NS)
	for _, row := range rows {
		subject := wildcard(row.Subject, role, queue)
		if slices.Contains(row.Writers, role) {
			_, named := strings.CutSuffix(row.Subject, ofUser)
			hasNamed := slices.ContainsFunc(rows, func(r SubjectRow) bool { return r.Subject == row.Subject+ofUser }) ||
				role == RoleKeeper && row.Kept == "JOURNAL" // for a named keeper, a node writes the tombstone
			switch {
			case named && role == RoleDriver:
				publish = append(publish, subject)
			case named && user != "":
				publish = append(publish, strings.TrimSuffix(subject, "*")+user)
			case !named && (user == "" || !hasNamed || role == RoleDriver):
				publish = append(publish, subject)
			}
		}
		if row.Kept == "" && slices.Contains(row.Readers, role) {
			hear = append(hear, strings.TrimSpace(subject+" "+row.Group))
		}
	}
	return append(publish, n.requests(role, queue, user)...), hear
}

func (g Grant) check() (namespace string, err error) {
	namespace, err = layout.ParseNamespace(g.Namespace)
	worker, service := slices.Contains(g.Roles, RoleWorker), slices.Contains(g.Roles, RoleService)
	switch {
	case err != nil:
	case len(g.Roles) == 0:
		err = errors.New("no role is given")
	case worker && !content.IsToken(g.Queue):
		err = fmt.Errorf("a worker needs a queue, not %q", g.Queue)
	case service && (len(g.Roles) > 1 || g.User != "" || len(g.Services) == 0):
		err = errors.New("a service needs the name that workers call, and cannot have another role or a user name")
	case !worker && !service && len(g.Services) > 0:
		err = errors.New("only a worker can call services")
	case !worker && !service && g.Queue != "":
		err = errors.New("only a worker can have a queue")
	case g.User != "" && !content.IsToken(g.User):
		err = fmt.Errorf("user %q: use 1 to 128 letters, digits, '-' or '_'", g.User)
	case g.User != "" && g.Inbox != "":
		err = fmt.Errorf("the inbox prefix of user %s must be %s: its programs take their name from it", g.User, g.Prefix())
	case g.User == "" && layout.UserOfInbox(g.Inbox) != "":
		err = fmt.Errorf("inbox prefix %s belongs to the user %s", g.Inbox, layout.UserOfInbox(g.Inbox))
	case g.User == "" && !content.IsToken(g.Inbox):
		err = fmt.Errorf("inbox prefix %q: use letters, digits, '-' or '_'", g.Inbox)
	}
	for _, r := range g.Roles {
		if err == nil && r != RoleService && !slices.Contains(Grantable(), r) {
			err = fmt.Errorf("role %q: use %s", r, strings.Trim(fmt.Sprint(Grantable()), "[]"))
		}
	}
	for _, name := range g.Services {
		if err == nil && (!content.IsToken(name) || strings.HasPrefix(name, "_") || name == namespace) {
			err = fmt.Errorf("service %q: use 1 to 128 letters, digits, '-' or '_', no '_' in front, and not the deployment's name", name)
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

// sortUnique sorts a list and removes duplicates.
func sortUnique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// streamRequests returns the requests about streams that each role's code makes to the server's API: look
// describes a stream and lists its subjects, read asks its leader for a message, scan asks any replica for
// many, and purge deletes messages. The subjects within a stream are in the body of a request, so a user
// who may read one subject may read all of them.
func streamRequests() []streamRequest {
	return []streamRequest{
		{RoleClient, "look read scan", "JOURNAL"},
		{RoleClient, "look read", "AGENTS"},
		{RoleClient, "read", "SEALS"},
		{RoleClient, "scan", "APPROVALS DEAD CATALOG"},
		{RoleClient, "read scan", "BLOBS SNAPSHOTS"},
		{RoleApprover, "look read scan", "JOURNAL"},
		{RoleApprover, "read", "SEALS"},
		{RoleApprover, "scan", "APPROVALS DEAD"},
		{RoleApprover, "read scan", "BLOBS SNAPSHOTS"},
		{RoleObserver, "look read scan", "JOURNAL"},
		{RoleObserver, "read scan", "BLOBS"},
		{RoleObserver, "read", "SIGNERS LOG CHECKPOINTS SEALS"},
		{RoleWorker, "read", "CATALOG FENCES SIGNERS SEALS"},
		{RoleWorker, "read scan", "BLOBS"},
		{RoleDriver, "look read", "INBOX NAMED TIMERS RUN TASKS SCHEDULES NAMED_SCHEDULES FENCES APPROVALS DEAD AGENTS MEMORY KEYS SIGNERS SEALS"},
		{RoleDriver, "look read scan", "JOURNAL NODES BLOBS SNAPSHOTS"},
		{RoleDriver, "look", "CATALOG LOG CHECKPOINTS WEBHOOKS"},
		{RoleDriver, "purge", "INBOX NAMED TIMERS SCHEDULES NAMED_SCHEDULES SNAPSHOTS BLOBS"},
		{RoleScheduler, "look read", "SCHEDULES NAMED_SCHEDULES"},
		{RoleKeeper, "look", "JOURNAL APPROVALS DEAD BLOBS SEALS"},
		{RoleKeeper, "read", "BLOBS SEALS"},
		{RoleKeeper, "scan", "JOURNAL SNAPSHOTS BLOBS"},
		{RoleProvisioner, "read", "AGENTS SIGNERS JOURNAL"},
		{RoleNotary, "look read scan", "JOURNAL"},
		{RoleNotary, "read scan", "BLOBS"},
		{RoleNotary, "read", "LOG CHECKPOINTS SIGNERS"},
		{RoleMessenger, "read scan", "JOURNAL BLOBS"},
		{RoleMessenger, "read", "SEALS"},
		{RoleMessenger, "look read scan", "WEBHOOKS"},
		{RoleDoctor, "look", "JOURNAL INBOX NAMED TIMERS RUN TASKS SCHEDULES NAMED_SCHEDULES KEYS SIGNERS SEALS CATALOG NODES SNAPSHOTS FENCES APPROVALS DEAD AGENTS MEMORY BLOBS LOG CHECKPOINTS WEBHOOKS"},
		{RoleDoctor, "read", "JOURNAL INBOX NAMED TIMERS RUN TASKS KEYS SIGNERS SEALS SNAPSHOTS BLOBS"},
		{RoleDoctor, "scan", "JOURNAL NODES CATALOG APPROVALS DEAD BLOBS"},
	}
}

type streamRequest struct {
	role           Role
	verbs, streams string // separated by spaces
}

// requests returns the subjects of the server's API that a role's code publishes to.
func (n names) requests(role Role, queue, user string) []string {
	verbs := map[string]string{"look": api.StreamInfo, "read": api.MsgGet, "scan": api.DirectGet, "purge": api.StreamPurge}
	onServer := make(map[string]string) // names of streams
	for _, s := range n.Streams() {
		onServer[s.Name] = s.Config.Name
	}
	var out []string
	for _, r := range streamRequests() {
		if r.role != role {
			continue
		}
		for stream := range strings.FieldsSeq(r.streams) {
			for verb := range strings.FieldsSeq(r.verbs) {
				out = append(out, verbs[verb]+onServer[stream])
			}
		}
	}
	switch role {
	case RoleProvisioner:
		out = append(out, n.maintenance()...)
	case RoleKeeper:
		for _, stream := range n.purged() {
			out = append(out, api.StreamPurge+stream)
		}
		for _, r := range n.mayName() {
			out = append(out, api.MsgGet+r.Stream)
		}
		out = append(out, api.MsgDelete+n.SealsStream())
	case RoleScheduler: // a named user cannot purge
		if user == "" {
			out = append(out, api.StreamPurge+n.SchedulesStream(), api.StreamPurge+n.NamedSchedulesStream())
		}
	case RoleDoctor:
		out = append(out, accountInfo, streamNames, apiConsumerList+n.RunStream(), apiConsumerList+n.TasksStream())
	case RoleWorker:
		out = append(out, claims(n.TasksStream(), n.QueueConsumer(queue))...)
	case RoleDriver:
		out = append(out, api.MsgDelete+n.TasksStream(), api.ConsumerInfo+n.TasksStream()+".*")
		out = append(out, claims(n.RunStream(), n.RunConsumer())...)
		out = append(out, watches(n.Catalog().Stream(), n.Catalog().Key(layout.OfferKeys+"*"))...)
	default:
	}
	return out
}

// claims returns the subjects for pulling from a durable consumer. Answers to deliveries have two forms;
// the newer one includes the server's domain and account, and may grow. The server distinguishes them only
// by the number of tokens. So the permissions fix that number: otherwise "*.*.<stream>.<consumer>" would
// match an answer of the older form to any other consumer.
func claims(stream, consumer string) []string {
	of := stream + "." + consumer
	return []string{api.ConsumerInfo + of, api.MsgNext + of, api.AckPrefix + of + ".*.*.*.*.*", api.AckPrefix + "*.*." + of + ".*.*.*.*.>"}
}

// watches returns the subjects for following keys of a bucket with the client's watcher. It creates and
// deletes a consumer, and answers flow control, which also has two forms.
func watches(stream, keys string) []string {
	const create, drop, pace = "$JS.API.CONSUMER.CREATE.", "$JS.API.CONSUMER.DELETE.", "$JS.FC."
	return []string{create + stream + ".*." + keys, drop + stream + ".*", pace + stream + ".*.*", pace + "*.*." + stream + ".*.*"}
}

// streamNames is the request that finds the stream with a subject.
const streamNames = "$JS.API.STREAM.NAMES"

// maintenance returns the subjects for creating, maintaining, copying and restoring the cell.
func (n names) maintenance() []string {
	out := []string{streamNames, apiConsumerList + n.TasksStream()}
	for _, r := range Topology(n.NS, Config{}) {
		for _, verb := range []string{"CREATE", "UPDATE", "INFO", "PURGE", "DELETE", "SNAPSHOT", "RESTORE"} {
			out = append(out, "$JS.API.STREAM."+verb+"."+r.Stream)
		}
		out = append(out, "$JS.SNAPSHOT.ACK."+r.Stream+".>", "$JS.SNAPSHOT.RESTORE."+r.Stream+".>")
		for _, verb := range []string{"CREATE", "INFO", "DELETE"} {
			out = append(out, "$JS.API.CONSUMER."+verb+"."+r.Stream+".>")
		}
	}
	return out
}

// Conf returns p in the syntax of nats-server's configuration files.
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
	switch {
	case p.Responses == 1:
		b.WriteString("  allow_responses: true\n")
	case p.Responses > 1:
		fmt.Fprintf(&b, "  allow_responses: { max: %d, expires: \"%s\" }\n", p.Responses, MaxCall)
	}
	b.WriteString("}\n")
	return b.String()
}

// Allowed returns the roles that have the permission that a user of the cell lacked.
func (c *Cell) Allowed(d *api.DeniedError) []Role {
	return slices.DeleteFunc(Grantable(), func(r Role) bool {
		publish, hear := c.names.grant(r, "*", "")
		named, _ := c.names.grant(r, "*", "*")
		publish = append(publish, named...)
		if d.Hearing {
			publish = hear
		}
		return !slices.ContainsFunc(publish, func(pattern string) bool { return covers(ungrouped(pattern), d.Subject) })
	})
}

// ungrouped returns the subject of a permission without its queue group.
func ungrouped(permission string) string {
	subject, _, _ := strings.Cut(permission, " ")
	return subject
}

// covers reports whether a pattern of subjects includes a subject, which may itself be a pattern.
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
