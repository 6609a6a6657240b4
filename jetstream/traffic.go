package jetstream

import (
	"slices"

	"github.com/turnlog/turnlog/events"
)

// Role is what somebody who connects to a cell is there for. A process may have
// several; permissions are given by role.
type Role string

// The roles. Server is NATS itself: nobody else may publish what it writes.
const (
	RoleClient   Role = "client"   // opens sessions, brings input, cancels
	RoleApprover Role = "approver" // decides approvals
	RoleWorker   Role = "worker"   // runs tools
	RoleDriver   Role = "driver"   // drives sessions
	RoleObserver Role = "observer" // reads
	RoleServer   Role = "server"

	RoleProvisioner Role = "provisioner" // sets the cell up and publishes agents
	RoleKeeper      Role = "keeper"      // deletes sessions and collects blobs
	RoleScheduler   Role = "scheduler"   // says what is to happen when
)

// SubjectRow describes a subject. What varies in it is written like <session>.
type SubjectRow struct {
	Subject string
	Kept    string // the stream, by its Row.Name; "" for core NATS, which keeps nothing
	Writers []Role
	Readers []Role
}

// Subjects lists every subject of a cell with who may write it. Permissions are
// made from it, and subjects.md is compared with it.
func Subjects(namespace string) []SubjectRow {
	const session, id, queue, place, node = "<session>", "<id>", "<queue>", "<place>", "<node>"
	var (
		n         = newNames(namespace)
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
		writers   = []Role{RoleDriver, RoleKeeper} // a keeper the tombstone, and nothing else
		keepers   = append(slices.Clip(readers), RoleKeeper)
		senders   = []Role{RoleClient, RoleApprover, RoleWorker, RoleDriver}
		everybody = []Role{RoleClient, RoleApprover, RoleWorker, RoleDriver, RoleObserver}
	)
	return []SubjectRow{
		{n.journal(session), "JOURNAL", writers, keepers},
		{n.cmd(session, events.LaneAsk), "INBOX", askers, driver},
		{n.cmd(session, events.LaneDecide), "INBOX", deciders, driver},
		{n.cmd(session, events.LaneReport), "INBOX", worker, driver},
		{n.timer(session, id), "TIMERS", driver, server},
		{n.due(session), "TIMERS", server, driver},
		{n.schedule("<schedule>"), "SCHEDULES", scheduler, []Role{RoleScheduler, RoleServer}},
		{n.fired("<schedule>"), "SCHEDULES", server, planners},
		{n.outcome("<schedule>"), "SCHEDULES", driver, planners},
		{n.run(session), "RUN", senders, driver},
		{n.task(queue, session, place), "TASKS", driver, worker},
		{n.live(n.journal(session)), "", server, readers},
		{n.live(n.cmd(session, "<lane>")), "", server, driver},
		{n.live(n.due(session)), "", server, driver},
		{n.live(n.fired("<schedule>")), "", server, driver},
		{n.delta(session), "", runners, watchers},
		{n.cancel(session), "", driver, worker},
		{n.probe(node), "", driver, driver},
		{kvKey(n.catalogBucket(), offerKeys+"<worker>"), "CATALOG", worker, finders},
		{kvKey(n.catalogBucket(), "unclaimed."+queue+"."+id), "CATALOG", worker, worker},
		{kvKey(n.catalogBucket(), fenceKey(session)), "CATALOG", driver, runners},
		{kvKey(n.nodesBucket(), node), "NODES", driver, driver},
		{kvKey(n.nodesBucket(), ticketsKey), "NODES", driver, driver},
		{kvKey(n.snapBucket(), session), "SNAPSHOTS", driver, driver},
		{kvKey(n.approvalsBucket(), session), "APPROVALS", driver, lookers},
		{kvKey(n.deadBucket(), session), "DEAD", driver, lookers},
		{kvKey(n.agentsBucket(), "<agent>"), "AGENTS", publisher, takers},
		{kvKey(n.agentsBucket(), "<agent>.<version>"), "AGENTS", publisher, takers},
		{kvKey(n.memoryBucket(), "<scope>.<goal>"), "MEMORY", driver, driver},
		{n.blobChunks(id), "BLOBS", senders, append(slices.Clip(everybody), RoleKeeper)},
		{n.blobMetaPrefix() + "<digest>", "BLOBS", append(slices.Clip(senders), RoleKeeper), append(slices.Clip(everybody), RoleKeeper)},
	}
}

// HeaderRow describes a header and the streams whose messages have it.
type HeaderRow struct {
	Name string
	On   []string // by Row.Name
}

// Headers lists the headers that messages of a cell carry, but for those that
// NATS adds when it delivers them.
func Headers() []HeaderRow {
	journal := []string{"JOURNAL"}
	return []HeaderRow{
		{headerGuard, []string{"JOURNAL", "CATALOG", "APPROVALS", "DEAD", "SCHEDULES", "BLOBS"}},
		{headerSeq, journal},
		{headerHash, journal},
		{headerPrev, journal},
		{headerKinds, journal},
		{headerVersion, journal},
		{headerTrace, journal},
		{headerBlob, []string{"JOURNAL", "INBOX", "TIMERS", "TASKS", "SNAPSHOTS"}},
		{headerTicket, []string{"INBOX", "TASKS"}},
		{"Nats-Schedule", []string{"TIMERS", "SCHEDULES"}},
		{"Nats-Schedule-Target", []string{"TIMERS", "SCHEDULES"}},
		{"Nats-Schedule-Time-Zone", []string{"SCHEDULES"}},
		{"Nats-TTL", []string{"CATALOG", "NODES", "APPROVALS", "DEAD", "MEMORY"}},
		{headerOperation, []string{"CATALOG", "NODES", "APPROVALS", "DEAD", "AGENTS", "MEMORY"}},
	}
}
