package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
)

// Severities of findings.
const (
	severityError   = "error"   // something does not work, or violates a requirement
	severityWarning = "warning" // something may fail soon, or could not be examined
)

// finding is one problem.
type finding struct {
	report.Finding

	namespace string // the flag that selects the cell in a suggested command
}

// check has the defaults for the findings of a check. In do, {object} is the object of the finding
// and {namespace} selects the cell.
type check struct{ severity, why, do string }

// checks lists all checks.
func checks() map[string]check {
	const (
		toolless   = "models are offered only the tools that a worker advertises, so the worker has nothing to do"
		settings   = "the deployment relies on these settings (subjects.md)"
		returns    = "a node that cannot drive a session returns its token and backs off, up to ten minutes"
		provision  = "turnlog provision{namespace}"
		startNode  = "driver-node{namespace}"
		startQueue = "tool-worker --queue {object}{namespace}"
	)
	return map[string]check{
		"jetstream-off": {
			severityError, "a deployment stores everything in JetStream",
			"start the server with JetStream (nats-server -js), or connect to an account that has it",
		},
		"not-examined":       {severityError, "it is not known whether anything is wrong there", "try again; if the problem persists, look into the server's log"},
		"permission-missing": {severityError, "the objects that they show could not be examined", ""},

		"stream-missing": {severityError, "everything that needs them fails", provision},
		"restore-unfinished": {
			severityError, "programs refuse a deployment whose restore was interrupted", "",
		},
		"stream-silent":  {severityError, "a stream without a leader can be neither read nor written", "make sure that a majority of its servers is up: nats server report jetstream"},
		"stream-differs": {severityError, settings, ""},
		"store-unwritable": {
			severityError, "commands and entries cannot be stored: senders get errors, and sessions stop",
			"look for \"no space left\" and \"write error\" in the servers' logs; after its disk was full, a stream rejects writes until there is room and its server restarts",
		},
		"account-limit": {
			severityWarning, "writes beyond a limit of the account are refused: senders get errors, and sessions stop",
			"raise the limit in the server's configuration or the account's JWT, or make room: turnlog gc{namespace}",
		},
		"ticket-key":       {severityError, "without the key, nodes do not start: they could not tell a worker's results from forged ones", provision},
		"subject-overlap":  {severityError, "the deployment cannot create its stream: a subject belongs to one stream", ""},
		"consumer-missing": {severityError, "no node gets sessions to drive", provision},
		"consumer-differs": {severityError, settings, ""},
		"consumer-paused":  {severityError, "it delivers nothing until it is resumed", ""},

		"durability-weak":   {severity: severityError}, // why: by setting
		"durability-unseen": {severityError, weakness("sync_interval"), ""},
		"monitor-silent":    {severityWarning, "it is not known when that server syncs to disk", "start nats-server with --http_port 8222, or correct --monitor"},
		"replica-behind":    {severityWarning, "until that server has caught up, the deployment survives fewer losses than it has copies", ""},
		"replicas-unequal":  {severityWarning, "the deployment is as durable as its weakest stream", ""},
		"clock-skew":        {severityWarning, "deadlines and timers fire early or late where clocks disagree", "run a time service (chrony, systemd-timesyncd) on both machines"},

		"no-nodes":  {severityWarning, "new input waits until one starts", startNode},
		"node-dead": {severityWarning, "its sessions make no progress until another node takes them over, which takes seconds", "run the doctor again in 15 s; find out why that node stopped"},

		"node-scripted": {
			severityWarning, "every user who may start sessions makes it run templates of their own, as fast as it can",
			"driver-node --scripted=false{namespace}, unless only trusted users start sessions",
		},

		"releases-differ": {
			severityWarning, "each release understands or refuses what the other writes, but a feature of only one release depends on which program runs it",
			"finish the upgrade, or return all programs to the previous release",
		},
		"node-tools-differ": {
			severityWarning, "a session that moves to another node has other tools there",
			"start all nodes with the same --tools and --mcp",
		},

		"session-unwoken": {severityError, "no node will drive them: the nodes' sweep, which finds such sessions every few seconds, does not reach them", ""},
		"session-waiting": {severityError, "all nodes are at their capacity", startNode + " on another machine, or with a larger --capacity"},
		"session-broken":  {severityError, returns, `look for "session cannot be driven" with session {object} in the nodes' logs`},
		"session-aside": {
			severityError, "it would crash the next node, too; its commands wait",
			"give the nodes more memory or update them, then turnlog dead retry {object}{namespace}; or turnlog sessions rm {object}{namespace}",
		},
		"session-unreadable": {severityError, returns, "observer verify {object}{namespace}"},
		"inbox-lagging": {
			severityError, "its node is alive but does not handle commands, so the turn does not end and a cancel has no effect",
			"restart that node, so that another one takes the session; keep its log",
		},
		"effect-stalled": {severityWarning, "a node drives it and is alive, so the model or the tool is slow, or hangs", ""},

		"queue-missing":    {severityError, "their turns wait until a worker creates the queue, or until the calls expire", startQueue},
		"queue-unattended": {severityError, "their turns wait until a worker starts, or until the calls expire", startQueue},
		"queue-full":       {severityWarning, "more workers do not help: the limit belongs to the queue", ""},
		"worker-toolless":  {severityWarning, toolless, ""},
	}
}

// found adds a finding with the defaults of its check.
func (d *doctor) found(name, object, what string, args ...any) *finding {
	c := checks()[name]
	f := &finding{report.Finding{Severity: c.severity, Check: name, Object: object, What: fmt.Sprintf(what, args...), Why: c.why}, d.namespaceFlag()}
	d.report.Findings = append(d.report.Findings, f)
	return f.do(c.do)
}

// do sets what to do.
func (f *finding) do(text string) *finding {
	f.Do = strings.NewReplacer("{object}", f.Object, "{namespace}", f.namespace).Replace(text)
	return f
}

// since sets the severity and its reason.
func (f *finding) since(severity, why string) *finding {
	f.Severity, f.Why = severity, why
	return f
}

// maxNamed is how many sessions a finding names.
const maxNamed = 20

// among names some of the sessions of the finding.
func (f *finding) among(sessions ...content.SessionID) *finding {
	f.Sessions = slices.Clone(sessions[:min(len(sessions), maxNamed)])
	return f
}

// notExamined reports that something could not be examined, unless err is nil.
func (d *doctor) notExamined(what string, err error) {
	if err != nil {
		d.found("not-examined", what, "%s could not be examined: %v", what, err)
	}
}

// partlyExamined reports that only some sessions were examined.
func (d *doctor) partlyExamined(what string, n int, of string) {
	d.found("not-examined", what, "only %d of %s %s were examined", n, of, what).
		since(severityWarning, "the remaining sessions may be stuck too").do(fmt.Sprintf("turnlog doctor --limit %d{namespace}", 10*n))
}

// each reports the first sessions one by one, since that reads their journals, and the
// rest together.
func (d *doctor) each(check string, sessions []content.SessionID, one func(content.SessionID)) {
	n := min(len(sessions), maxRead)
	for _, s := range sessions[:n] {
		one(s)
	}
	if rest := sessions[n:]; len(rest) > 0 {
		d.found(check, "", "the same is true of %d more sessions", len(rest)).among(rest...).do("see the findings above")
	}
}
