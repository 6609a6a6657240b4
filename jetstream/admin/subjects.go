package admin

import (
	"slices"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Role is the purpose of a user of a cell. A process may have several; permissions are granted by
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
)

// SubjectRow describes a subject. Its variable tokens are written like <session>.
type SubjectRow struct {
	Subject string
	Kept    string // the Row.Name of the stream that stores it; "": none
	Writers []Role
	Readers []Role
}

// Subjects returns every subject of a cell and the roles that use it. Permissions follow from it, and
// a test compares it with subjects.md.
func Subjects(namespace string) []SubjectRow {
	const session, id, queue, place, node = "<session>", "<id>", "<queue>", "<place>", "<node>"
	var (
		n         = layout.New(namespace)
		askers    = []Role{RoleClient, RoleDriver}   // a driver for the sub-agents of its session
		deciders  = []Role{RoleApprover, RoleDriver} // likewise
		worker    = []Role{RoleWorker}
		driver    = []Role{RoleDriver}
		server    = []Role{RoleServer}
		publisher = []Role{RoleProvisioner}
		scheduler = []Role{RoleScheduler}
		planners  = []Role{RoleDriver, RoleScheduler}
		takers    = []Role{RoleClient, RoleDriver, RoleProvisioner}
		finders   = []Role{RoleClient, RoleDriver}
		runners   = []Role{RoleWorker, RoleDriver}
		lookers   = []Role{RoleClient, RoleApprover, RoleDriver}
		watchers  = []Role{RoleClient, RoleApprover, RoleObserver}
		readers   = []Role{RoleClient, RoleApprover, RoleDriver, RoleObserver}
		writers   = []Role{RoleDriver, RoleKeeper} // a keeper only the tombstone
		keepers   = append(slices.Clip(readers), RoleKeeper)
		senders   = []Role{RoleClient, RoleApprover, RoleWorker, RoleDriver}
		everybody = []Role{RoleClient, RoleApprover, RoleWorker, RoleDriver, RoleObserver}
	)
	return []SubjectRow{
		{n.Journal(session), "JOURNAL", writers, keepers},
		{n.Cmd(session, events.LaneAsk), "INBOX", askers, driver},
		{n.Cmd(session, events.LaneDecide), "INBOX", deciders, driver},
		{n.Cmd(session, events.LaneReport), "INBOX", worker, driver},
		{n.Timer(session, id), "TIMERS", driver, server},
		{n.Due(session), "TIMERS", server, driver},
		{n.Schedule("<schedule>"), "SCHEDULES", scheduler, []Role{RoleScheduler, RoleServer}},
		{n.Fired("<schedule>"), "SCHEDULES", server, planners},
		{n.Outcome("<schedule>"), "SCHEDULES", driver, planners},
		{n.Run(session), "RUN", senders, driver},
		{n.Task(queue, session, place), "TASKS", driver, worker},
		{n.Live(n.Journal(session)), "", server, readers},
		{n.Live(n.Cmd(session, "<lane>")), "", server, driver},
		{n.Live(n.Due(session)), "", server, driver},
		{n.Live(n.Fired("<schedule>")), "", server, driver},
		{n.Delta(session), "", runners, watchers},
		{n.Cancel(session), "", driver, worker},
		{n.Probe(node), "", driver, driver},
		{n.Catalog().Key(layout.OfferKeys + "<worker>"), "CATALOG", worker, finders},
		{n.Catalog().Key(layout.UnclaimedKeys + queue + "." + id), "CATALOG", worker, worker},
		{n.Catalog().Key(layout.FenceKeys + session), "CATALOG", driver, runners},
		{n.Nodes().Key(node), "NODES", driver, driver},
		{n.Nodes().Key(layout.TicketsKey), "NODES", driver, driver},
		{n.Snapshots().Key(session), "SNAPSHOTS", driver, lookers},
		{n.Approvals().Key(session), "APPROVALS", driver, lookers},
		{n.Dead().Key(session), "DEAD", driver, lookers},
		{n.Agents().Key("<agent>"), "AGENTS", publisher, takers},
		{n.Agents().Key("<agent>.<version>"), "AGENTS", publisher, takers},
		{n.Memory().Key("<scope>.<goal>"), "MEMORY", driver, driver},
		{n.BlobChunks(id), "BLOBS", senders, append(slices.Clip(everybody), RoleKeeper)},
		{n.BlobMetaPrefix() + "<digest>", "BLOBS", append(slices.Clip(senders), RoleKeeper), append(slices.Clip(everybody), RoleKeeper)},
	}
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
		{layout.HeaderGuard, []string{"JOURNAL", "CATALOG", "APPROVALS", "DEAD", "SCHEDULES", "BLOBS"}},
		{layout.HeaderSeq, journal},
		{layout.HeaderHash, journal},
		{layout.HeaderPrev, journal},
		{layout.HeaderKinds, journal},
		{layout.HeaderVersion, journal},
		{layout.HeaderTrace, journal},
		{layout.HeaderBlob, []string{"JOURNAL", "INBOX", "TIMERS", "TASKS", "SNAPSHOTS"}},
		{layout.HeaderTicket, []string{"INBOX", "TASKS"}},
		{"Nats-Schedule", []string{"TIMERS", "SCHEDULES"}},
		{"Nats-Schedule-Target", []string{"TIMERS", "SCHEDULES"}},
		{"Nats-Schedule-Time-Zone", []string{"SCHEDULES"}},
		{"Nats-TTL", []string{"CATALOG", "NODES", "APPROVALS", "DEAD", "MEMORY"}},
		{layout.HeaderOperation, []string{"CATALOG", "NODES", "APPROVALS", "DEAD", "AGENTS", "MEMORY"}},
	}
}
