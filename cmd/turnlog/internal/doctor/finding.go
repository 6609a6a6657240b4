package doctor

import (
	"cmp"
	"fmt"

	"github.com/turnlog/turnlog/content"
)

// Severities of findings.
const (
	severityError   = "error"   // something does not work, or violates a requirement
	severityWarning = "warning" // something may fail soon, or could not be examined
)

// finding is one problem.
type finding struct {
	Severity string              `json:"severity"`
	Check    string              `json:"check"` // stable, for scripts
	Object   string              `json:"object,omitempty"`
	What     string              `json:"what"`
	Why      string              `json:"why"`
	Do       string              `json:"do"`
	Sessions []content.SessionID `json:"sessions,omitempty"` // some of them
}

// check is what the findings of a check have in common. A finding with its own severity
// or reason overrides it.
type check struct{ severity, why string }

// checks lists all checks.
func checks() map[string]check {
	const toolless = "models are offered only the tools that a worker advertises, so the worker has nothing to do"
	return map[string]check{
		"jetstream-off":      {severityError, "a deployment stores everything in JetStream"},
		"not-examined":       {severityError, "it is not known whether anything is wrong there"},
		"permission-missing": {severityError, "what they show could not be examined"},

		"stream-missing":   {severityError, "nothing that needs them works"},
		"stream-silent":    {severityError, "a stream without a leader can be neither read nor written"},
		"stream-differs":   {severityError, "the deployment relies on these settings (subjects.md)"},
		"subject-overlap":  {severityError, "the deployment cannot create its stream: a subject belongs to one stream"},
		"consumer-missing": {severityError, "no node gets sessions to drive"},
		"consumer-differs": {severityError, "the deployment relies on these settings (subjects.md)"},
		"consumer-paused":  {severityError, "it delivers nothing until it is resumed"},

		"durability-weak":   {severity: severityError}, // why: by setting
		"durability-unseen": {severityError, weakness("sync_interval")},
		"monitor-silent":    {severityWarning, "it is not known when that server syncs to disk"},
		"replica-behind":    {severityWarning, "until that server has caught up, the deployment survives fewer losses than it has copies"},
		"replicas-unequal":  {severityWarning, "the deployment is as durable as its weakest stream"},
		"clock-skew":        {severityError, "nodes set deadlines by their clocks: they fire early or late, and other nodes disagree about them"},

		"no-nodes":  {severityWarning, "new input waits until one starts"},
		"node-dead": {severityWarning, "its sessions make no progress until another node takes them over, which takes seconds"},

		"session-unwoken":    {severityError, "no node will drive them: the nodes' sweep, which finds such sessions every few seconds, does not reach them"},
		"session-waiting":    {severityError, "all nodes are at their capacity"},
		"session-broken":     {severityError, "a node that cannot drive a session returns its token and backs off, up to ten minutes"},
		"session-unreadable": {severityError, "a node that cannot drive a session returns its token and backs off, up to ten minutes"},
		"effect-stalled":     {severityWarning, "a node drives it and is alive, so the model or the tool is slow, or hangs"},

		"queue-missing":    {severityError, "their turns wait until a worker creates the queue, or until the calls expire"},
		"queue-unattended": {severityError, "their turns wait until a worker starts, or until the calls expire"},
		"queue-full":       {severityWarning, "more workers do not help: the limit belongs to the queue"},
		"worker-toolless":  {severityWarning, toolless},
	}
}

// maxNamed is how many sessions a finding names.
const maxNamed = 20

func (d *doctor) found(f finding) {
	of := checks()[f.Check]
	f.Severity, f.Why = cmp.Or(f.Severity, of.severity), cmp.Or(f.Why, of.why)
	f.Sessions = f.Sessions[:min(len(f.Sessions), maxNamed)]
	d.report.Findings = append(d.report.Findings, f)
}

// blind reports what could not be examined, if err says so.
func (d *doctor) blind(what string, err error) {
	if err != nil {
		d.found(finding{
			Check: "not-examined", Object: what, What: fmt.Sprintf("%s could not be examined: %v", what, err),
			Do: "try again; if the problem persists, look into the server's log",
		})
	}
}

// partly reports that only some sessions were examined.
func (d *doctor) partly(what string, n int, of string) {
	d.found(finding{
		Severity: severityWarning, Check: "not-examined", Object: what, What: fmt.Sprintf("only %d of %s %s were examined", n, of, what),
		Why: "the remaining sessions may be stuck too", Do: fmt.Sprintf("turnlog doctor --limit %d%s", 10*n, d.namespaceFlag()),
	})
}

// each reports the first sessions one by one, since that reads their journals, and the
// rest together.
func (d *doctor) each(check string, sessions []content.SessionID, one func(content.SessionID)) {
	n := min(len(sessions), maxRead)
	for _, s := range sessions[:n] {
		one(s)
	}
	if rest := sessions[n:]; len(rest) > 0 {
		d.found(finding{Check: check, Sessions: rest, What: fmt.Sprintf("the same is true of %d more sessions", len(rest)), Do: "see the findings above"})
	}
}
