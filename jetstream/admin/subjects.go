package admin

import (
	"strings"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Role is the purpose of a user of a cell. A process may have several roles. Permissions are granted by
// role.
type Role string

// The roles. RoleServer is NATS itself.
const (
	RoleClient   Role = "client"   // opens sessions, sends input, cancels
	RoleApprover Role = "approver" // decides approvals
	RoleWorker   Role = "worker"   // runs tools
	RoleDriver   Role = "driver"   // drives sessions
	RoleObserver Role = "observer" // reads
	RoleServer   Role = "server"

	RoleProvisioner Role = "provisioner" // creates the cell and publishes agents
	RoleKeeper      Role = "keeper"      // deletes sessions and collects blobs
	RoleScheduler   Role = "scheduler"   // manages schedules
	RoleDoctor      Role = "doctor"      // examines the cell and changes nothing
	RoleNotary      Role = "notary"      // logs the heads of sessions
	RoleMessenger   Role = "messenger"   // sends webhooks
	RoleService     Role = "service"     // a microservice that workers call; it is outside the cell
)

// SubjectRow describes a subject. Its variable tokens are written like <session>.
type SubjectRow struct {
	Subject string
	Kept    string // the Row.Name of the stream that stores it; "": not stored
	Writers []Role
	Readers []Role
	Group   string // the queue group in which the readers must subscribe, so that each message goes to one of them; "": all get it
}

// Subjects returns every subject of a cell and the roles that use it. Permissions are derived from it, and
// a test compares it with subjects.md.
func Subjects(namespace string) []SubjectRow {
	const session, id, queue, place, node = "<session>", "<id>", "<queue>", "<place>", "<node>"
	n := layout.New(namespace)
	row := func(subject, kept, writers, readers string) SubjectRow {
		return SubjectRow{Subject: subject, Kept: kept, Writers: rolesIn(writers), Readers: rolesIn(readers)}
	}
	inGroup := func(group string, r SubjectRow) SubjectRow {
		r.Group = group
		return r
	}
	// A driver sends commands for the sub-agents of its session. A keeper appends only tombstones.
	return []SubjectRow{
		row(n.Journal(session), "JOURNAL", "driver keeper", "client approver driver observer keeper doctor notary messenger"),
		row(n.Cmd(session, events.LaneAsk), "INBOX", "client driver", "driver doctor"),
		row(n.Cmd(session, events.LaneDecide), "INBOX", "approver driver", "driver doctor"),
		row(n.Cmd(session, events.LaneReport), "INBOX", "worker", "driver doctor"),
		row(n.Cmd(session, events.LaneAsk)+ofUser, "NAMED", "client driver", "driver doctor"),
		row(n.Cmd(session, events.LaneDecide)+ofUser, "NAMED", "approver driver", "driver doctor"),
		row(n.Timer(session, id), "TIMERS", "driver", "server"),
		row(n.Due(session), "TIMERS", "server", "driver doctor"),
		row(n.Schedule("<schedule>"), "SCHEDULES", "scheduler", "scheduler server"),
		row(n.Fired("<schedule>"), "SCHEDULES", "server", "driver scheduler"),
		row(n.Outcome("<schedule>"), "SCHEDULES", "driver", "driver scheduler"),
		row(n.Schedule("<schedule>")+ofUser, "NAMED_SCHEDULES", "scheduler", "scheduler server"),
		row(n.Fired("<schedule>")+ofUser, "NAMED_SCHEDULES", "server", "driver scheduler"),
		row(n.Outcome("<schedule>")+ofUser, "NAMED_SCHEDULES", "driver", "driver scheduler"),
		row(n.Run(session), "RUN", "client approver worker driver", "driver doctor"),
		row(n.Task(queue, session, place), "TASKS", "driver", "worker doctor"),
		row(n.Live(n.Journal(session)), "", "server", "client approver driver observer notary messenger"),
		row(n.Live(n.Cmd(session, "<lane>")), "", "server", "driver"),
		row(n.Live(n.Cmd(session, "<lane>"))+ofUser, "", "server", "driver"),
		row(n.Live(n.Due(session)), "", "server", "driver"),
		row(n.Live(n.Fired("<schedule>")), "", "server", "driver"),
		row(n.Live(n.Fired("<schedule>"))+ofUser, "", "server", "driver"),
		row(n.Delta(session), "", "worker driver", "client approver observer"),
		row(n.Report(session), "", "worker", "driver"),
		inGroup(layout.Workers, row(n.Call(queue, session, place), "", "driver", "worker")),
		row(n.Held(node), "", "worker", "driver"),
		row(n.Unheard(node, "<ticket>"), "", "server", "driver"),
		row(n.Cancel(session), "", "driver", "worker"),
		row(n.Deletion(session, "<user>"), "", "keeper", "driver"),
		row(n.Probe(node), "", "driver doctor", "driver"),
		row(n.Catalog().Key(layout.OfferKeys+"<worker>"), "CATALOG", "worker driver", "client driver doctor"),
		row(n.Catalog().Key(layout.UnclaimedKeys+queue+"."+id), "CATALOG", "worker", "worker"),
		row(n.Catalog().Key(layout.BegunKeys+queue+"."+id), "CATALOG", "worker", "worker"),
		row(n.Fences().Key(session), "FENCES", "driver", "worker driver"),
		row(n.Nodes().Key(node), "NODES", "driver", "driver doctor"),
		row(n.Nodes().Key(node+layout.ListKey), "NODES", "driver", "driver doctor"),
		row(n.Snapshots().Key(session), "SNAPSHOTS", "driver", "client approver driver doctor"),
		row(n.Snapshots().Key(session+".<chunk>"), "SNAPSHOTS", "driver", "client approver driver"),
		row(n.Snapshots().Key(layout.PageKeys+"<page>"), "SNAPSHOTS", "driver", "client approver driver"),
		row(n.Approvals().Key(session), "APPROVALS", "driver", "client approver driver doctor"),
		row(n.Dead().Key(session), "DEAD", "driver", "client approver driver doctor"),
		row(n.Dead().Key(layout.TrialKeys+session), "DEAD", "approver driver", "client approver driver doctor"),
		row(n.Dead().Key(layout.TrialKeys+session)+ofUser, "DEAD", "approver driver", "driver"),
		row(n.Agents().Key("<agent>"), "AGENTS", "provisioner", "client driver provisioner"),
		row(n.Agents().Key("<agent>.<version>"), "AGENTS", "provisioner", "client driver provisioner"),
		row(n.Memory().Key("<scope>.<goal>"), "MEMORY", "driver", "driver"),
		row(n.Webhooks().Key(layout.EndpointKeys+"<endpoint>"), "WEBHOOKS", "messenger", "messenger"),
		row(n.Webhooks().Key(layout.FailedKeys+"<endpoint>."+id), "WEBHOOKS", "messenger", "messenger"),
		row(n.Webhooks().Key(layout.AgainKeys+"<endpoint>."+id), "WEBHOOKS", "messenger", "messenger"),
		row(n.BlobChunks(id), "BLOBS", "client approver worker driver", "client approver worker driver observer keeper doctor notary messenger"),
		row(n.BlobMetaPrefix()+"<digest>", "BLOBS", "client approver worker driver keeper", "client approver worker driver observer keeper doctor notary messenger"),
		row(n.TileChunks(id), "LOG", "notary", "observer notary"),
		row(n.TileMetaPrefix()+"<tile>", "LOG", "notary", "observer notary"),
		row(n.Checkpoints().Key(layout.TreeKey), "CHECKPOINTS", "notary", "observer notary"),
		row(n.Checkpoints().Key(layout.CheckpointKey), "CHECKPOINTS", "notary", "observer notary"),
		row(n.Checkpoints().Key(layout.NewestKeys+id), "CHECKPOINTS", "notary", "observer notary"),
		row(n.TicketKey(), "KEYS", "provisioner", "driver doctor"),
		row(strings.TrimSuffix(n.AllSigners(), "*")+"<version>", "SIGNERS", "provisioner", "driver worker observer provisioner doctor notary"),
		row(n.Seal(session, "<key>"), "SEALS", "client keeper", "client approver worker driver observer keeper doctor messenger"),
	}
}

// rolesIn splits a list of roles.
func rolesIn(list string) (out []Role) {
	for role := range strings.FieldsSeq(list) {
		out = append(out, Role(role))
	}
	return out
}

// headerRow describes a header and the streams whose messages may have it.
type headerRow struct {
	name string
	on   []string // by Row.Name
}

// headers returns the headers of a cell's messages, except those that NATS adds on delivery.
func headers() []headerRow {
	journal := []string{"JOURNAL"}
	return []headerRow{
		{layout.HeaderGuard, []string{"JOURNAL", "NODES", "FENCES", "APPROVALS", "DEAD", "SCHEDULES", "NAMED_SCHEDULES", "BLOBS", "CHECKPOINTS", "WEBHOOKS"}},
		{layout.HeaderSeq, journal},
		{layout.HeaderHash, journal},
		{layout.HeaderPrev, journal},
		{layout.HeaderKinds, journal},
		{layout.HeaderStored, journal},
		{layout.HeaderTrace, journal},
		{layout.HeaderBaggage, []string{"INBOX", "NAMED"}},
		{layout.HeaderBlob, []string{"JOURNAL", "INBOX", "NAMED", "TIMERS", "TASKS", "SNAPSHOTS"}},
		{layout.HeaderTicket, []string{"INBOX", "TASKS"}},
		{layout.HeaderHeld, nil},
		{layout.HeaderSignature, []string{"JOURNAL", "INBOX", "NAMED", "TASKS"}},
		{layout.HeaderSchedule, []string{"INBOX", "NAMED"}},
		{layout.HeaderSealed, []string{"INBOX", "NAMED", "TIMERS", "TASKS", "SNAPSHOTS"}},
		{"Nats-Schedule", []string{"TIMERS", "SCHEDULES", "NAMED_SCHEDULES"}},
		{"Nats-Schedule-Target", []string{"TIMERS", "SCHEDULES", "NAMED_SCHEDULES"}},
		{"Nats-Schedule-Time-Zone", []string{"SCHEDULES", "NAMED_SCHEDULES"}},
		{"Nats-TTL", []string{"CATALOG", "NODES", "FENCES", "APPROVALS", "DEAD", "MEMORY", "WEBHOOKS"}},
		{layout.HeaderOperation, []string{"CATALOG", "NODES", "APPROVALS", "DEAD", "AGENTS", "MEMORY", "NAMED_SCHEDULES", "WEBHOOKS"}},
	}
}
