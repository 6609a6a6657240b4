package actor

import (
	"context"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// verifierWait is how long a verifier waits for a worker. A restarted worker makes three offers in that time.
const verifierWait = 30 * time.Second

// placeVerifier makes the verifier's call, once there is a queue for it.
func (d *driver) placeVerifier(v loop.Verify) {
	if d.verifier.Place != content.VerifierPlace(d.State.Turn.N, v.Attempt) || unplaced(d.verifier) {
		d.verifier = engine.VerifierCall(d.State.Turn, v, d.node.offers.Verifiers())
	}
}

// unplaced reports whether a call is a verifier that no worker would run now.
func unplaced(c loop.Call) bool { return c.Name == loop.VerifierTool && c.Routing.Queue == "" }

// awaitVerifiers waits for a worker that runs verifiers, then lets the call be dispatched.
func (d *driver) awaitVerifiers(ctx context.Context, e loop.RunTool) commands.Command {
	for end := time.Now().Add(verifierWait); d.node.offers.Verifiers() == ""; {
		if time.Now().After(end) {
			return unrunnable(e.Call, tool.CodeFailed, "no worker runs the verifiers of tasks: start one with --tools gate")
		}
		if !pause.For(ctx, dispatchAgain) {
			return nil
		}
	}
	d.reportMissing(ctx, e.Identity())
	return nil
}

// takeVerdict turns the report of a verifier's call into the verifier's verdict.
func (d *driver) takeVerdict(_ context.Context, env *commands.Envelope) error {
	t := d.State.Task
	if t == nil || !t.Running || d.State.Turn == nil {
		return nil
	}
	f := events.VerifyFinished{Attempt: t.Attempts, Exit: -1}
	var of content.Place
	switch r := env.Command.(type) { //nolint:gochecksumtype // other commands are not about calls
	case commands.ReportResult:
		of, f = r.Place, engine.Verdict(t.Attempts, r.Outcome)
	case commands.ReportAttemptLost:
		of, f.Output = r.Place, "the verifier has no verdict: "+r.Reason
	case commands.ReportQuestion:
		of, f.Output = r.Place, "the verifier has no verdict: its worker asks for an approval ("+r.Question.RequestKind+"), but verifiers do not wait: allow it on the worker"
	}
	if of == content.VerifierPlace(d.State.Turn.N, t.Attempts) {
		d.verifier = loop.Call{}
		env.Command = commands.ReportVerify{Task: t.Name, Finished: f}
	}
	return nil
}

// checkVerdict refuses a client's verdict unless a function of the client verifies the task. It records who
// sent the verdict.
func (d *driver) checkVerdict(env *commands.Envelope) error {
	v, ok := env.Command.(commands.ReportVerify)
	switch {
	case !ok:
	case d.State.Task == nil || !d.State.Task.Spec.VerifierFunc:
		return &commands.Rejection{Reason: commands.ReasonNotRunning, Detail: "the session has no task that a client's function verifies"}
	case len(v.Finished.Output) > engine.MaxVerdict:
		return &commands.Rejection{Reason: commands.ReasonTooLarge, Detail: fmt.Sprintf("the output has %d bytes, at most %d", len(v.Finished.Output), engine.MaxVerdict)}
	default:
		v.Finished.By, v.Finished.User = env.By, env.User
		env.Command = v
	}
	return nil
}

// addVerifier gives a task without a verifier the verifier of the session's agent.
func (d *driver) addVerifier(_ context.Context, env *commands.Envelope) error {
	c, ok := env.Command.(commands.StartTask)
	if ok && len(c.Spec.Verifier) == 0 && !c.Spec.VerifierFunc && len(d.agent.Load().Verifier) > 0 {
		c.Spec.Verifier, c.Spec.MaxRetries = d.agent.Load().Verifier, d.agent.Load().Retries
		env.Command = c
	}
	return nil
}
