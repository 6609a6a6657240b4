package actor

import (
	"context"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// verifierWait is how long a verifier waits for workers that run verifiers: three offers of
// a worker that was restarted in the meantime.
const verifierWait = 30 * time.Second

// pending is what the session owes, with the verifier of its task as a call. So a verifier is
// dispatched, recovered after a crash and stopped as every call is. A verifier that is no
// longer owed, though no verdict came, has to be stopped.
func (d *driver) pending() []loop.Effect {
	owed := loop.Pending(d.State)
	runs := false
	for i, e := range owed {
		switch e := e.(type) { //nolint:gochecksumtype // only verifiers become calls
		case loop.Verify:
			if len(e.Gate) > 0 {
				d.placeVerifier(e)
				owed[i], runs = loop.RunTool{Session: d.State.Session, Call: d.verifier}, true
			}
		case loop.StopVerify: // perhaps of another driver's
			d.placeVerifier(loop.Verify{Task: e.Task, Attempt: e.Attempt})
		}
	}
	if c := d.verifier; c.Routing.Queue != "" && !runs {
		owed = append(owed, loop.StopTool{Call: c.ID, Place: c.Place, Queue: c.Routing.Queue, Reason: "the task does not wait for its verifier any more"})
	}
	return owed
}

// placeVerifier finds a queue for the verifier, once there is one.
func (d *driver) placeVerifier(v loop.Verify) {
	if d.verifier.Place != engine.GatePlace(d.State.Turn.N, v.Attempt) || unplaced(d.verifier) {
		d.verifier = engine.GateCall(d.State.Turn, v, d.node.offers.verifiers())
	}
}

// unplaced reports whether a call is a verifier's that no worker would run now.
func unplaced(c loop.Call) bool { return c.Name == engine.GateTool && c.Routing.Queue == "" }

// policyOf is what the session's agent lets a call do where it runs. The policy does not bind
// a verifier, which is no call of a model: the user who set the task wants it run.
func (d *driver) policyOf(c loop.Call) []byte {
	if c.Name == engine.GateTool {
		return nil
	}
	return d.agent.Policy
}

// awaitVerifiers waits for a worker that runs verifiers, and then has the call dispatched.
func (d *driver) awaitVerifiers(ctx context.Context, e loop.RunTool) commands.Command {
	for end := time.Now().Add(verifierWait); d.node.offers.verifiers() == ""; {
		if time.Now().After(end) {
			return unrunnable(e.Call, "no worker runs the gates of tasks: start one with --tools gate")
		}
		if !pause(ctx, dispatchAgain) {
			return nil
		}
	}
	d.reportMissing(ctx, e.Identity())
	return nil
}

// takeVerdict makes the report about a verifier's call the report of the verifier.
func (d *driver) takeVerdict(_ context.Context, env *commands.Envelope) error {
	t := d.State.Task
	if t == nil || !t.Running || d.State.Turn == nil {
		return nil
	}
	f := events.VerifyFinished{Attempt: t.Attempts, Exit: -1}
	var of content.Place
	switch r := env.Command.(type) { //nolint:gochecksumtype // the others are not about calls
	case commands.ReportResult:
		of, f = r.Place, engine.GateVerdict(t.Attempts, r.Outcome)
	case commands.ReportAttemptLost:
		of, f.Output = r.Place, "the verifier has no verdict: "+r.Reason
	case commands.ReportQuestion:
		of, f.Output = r.Place, "the verifier has no verdict: its worker asks for an approval ("+r.Question.RequestKind+"), and verifiers do not wait for one: have the worker allow it"
	}
	if of == engine.GatePlace(d.State.Turn.N, t.Attempts) {
		d.verifier = loop.Call{}
		env.Command = commands.ReportVerify{Task: t.Name, Finished: f}
	}
	return nil
}

// addVerifier gives a task without a verifier that of the session's agent.
func (d *driver) addVerifier(_ context.Context, env *commands.Envelope) error {
	c, ok := env.Command.(commands.StartTask)
	if ok && len(c.Spec.Verifier) == 0 && !c.Spec.VerifierFunc && len(d.agent.Gate) > 0 {
		c.Spec.Verifier, c.Spec.MaxRetries = d.agent.Gate, d.agent.Retries
		env.Command = c
	}
	return nil
}
