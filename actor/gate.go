package actor

import (
	"context"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// gateWait is how long a gate waits for workers that run gates: three offers of one
// that was started again in the meantime.
const gateWait = 30 * time.Second

// pending is what the session owes, with the gate of its task as the call that it is
// on a worker. So a gate is dispatched, looked for after a crash and told to stop as
// every call is. One that was owed and is not any more, though no verdict came, has
// to be stopped.
func (d *Driver) pending() []loop.Effect {
	owed := loop.Pending(d.state)
	runs := false
	for i, e := range owed {
		switch e := e.(type) { //nolint:gochecksumtype // only gates are calls in disguise
		case loop.Verify:
			if len(e.Gate) > 0 {
				d.placeGate(e)
				owed[i], runs = loop.RunTool{Session: d.state.Session, Call: d.gate}, true
			}
		case loop.StopVerify: // perhaps of another driver's
			d.placeGate(loop.Verify{Task: e.Task, Attempt: e.Attempt})
		}
	}
	if d.gate.Routing.Queue != "" && !runs {
		c := d.gate
		owed = append(owed, loop.StopTool{Call: c.ID, Place: c.Place, Queue: c.Routing.Queue, Reason: "the task does not wait for its gate any more"})
	}
	return owed
}

// placeGate finds a queue for the gate, once there is one.
func (d *Driver) placeGate(v loop.Verify) {
	if d.gate.Place != engine.GatePlace(d.state.Turn.N, v.Attempt) || unplaced(d.gate) {
		d.gate = engine.GateCall(d.state.Turn, v, d.node.offers.gates())
	}
}

// unplaced reports whether a call is a gate's that no worker would run now.
func unplaced(c loop.Call) bool { return c.Name == engine.GateTool && c.Routing.Queue == "" }

// policyOf is what the session's agent lets a call do where it runs. A gate is no call of
// a model, but what whoever set the task wants to have run.
func (d *Driver) policyOf(c loop.Call) []byte {
	if c.Name == engine.GateTool {
		return nil
	}
	return d.outfit.Policy
}

// awaitGates waits for a worker that runs gates, and then has the call dispatched.
func (d *Driver) awaitGates(ctx context.Context, e loop.RunTool) commands.Command {
	for end := time.Now().Add(gateWait); d.node.offers.gates() == ""; {
		if time.Now().After(end) {
			err := tool.Failure(tool.CodeFailed, "no worker runs the gates of tasks: start one with --tools gate")
			return commands.ReportResult{Place: e.Call.Place, Attempt: e.Call.Attempt, Outcome: tool.Failed(tool.Call{ID: e.Call.ID, Name: e.Call.Name}, err)}
		}
		if !pause(ctx, postAgain) {
			return nil
		}
	}
	d.missing(ctx, e.Identity())
	return nil
}

// verdict makes the report about a gate's call the report of the gate.
func (d *Driver) verdict(c commands.Command) commands.Command {
	t := d.state.Task
	if t == nil || !t.Running || d.state.Turn == nil {
		return c
	}
	f := events.VerifyFinished{Attempt: t.Attempts, Exit: -1}
	var of content.Place
	switch r := c.(type) { //nolint:gochecksumtype // the others are not about calls
	case commands.ReportResult:
		of, f = r.Place, engine.GateVerdict(t.Attempts, r.Outcome)
	case commands.ReportAttemptLost:
		of, f.Output = r.Place, "the gate has no verdict: "+r.Reason
	case commands.ReportGate:
		of, f.Output = r.Place, "the gate has no verdict: its worker asks for an approval ("+r.Gate.RequestKind+"), and gates do not wait for one: have the worker allow it"
	}
	if of != engine.GatePlace(d.state.Turn.N, t.Attempts) {
		return c
	}
	d.gate = loop.Call{}
	return commands.ReportVerify{Task: t.Name, Finished: f}
}
