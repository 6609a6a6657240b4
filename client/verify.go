package client

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// verifying runs the function that verifies a task, in this process. The session waits for it.
type verifying struct {
	ctx  context.Context //nolint:containedctx // ends with Close
	runs sync.WaitGroup

	fn      extension.Verifier // nil: none
	running string             // the identity of the verification
	stop    context.CancelFunc // ends it; nil: none is running
}

// SetVerifier sets the function that verifies the task that is open, or started next.
func (r *remote) SetVerifier(v extension.Verifier) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verify.fn = v
	r.verifyLocked()
}

// verifyLocked starts the verification that the session waits for, and stops one that it no longer
// waits for.
func (r *remote) verifyLocked() {
	v, owed := &r.verify, loop.Verify{}
	if s := r.state; s.Phase() == events.Verifying && s.Task.Spec.VerifierFunc && s.Turn.Cancel == nil {
		owed = loop.Verify{Task: s.Task.Name, Attempt: s.Task.Attempts}
	}
	if v.stop != nil && v.running != owed.Identity() {
		v.stop()
		v.stop = nil
	}
	if v.fn == nil || owed.Task == "" || v.stop != nil || v.ctx.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(v.ctx)
	v.running, v.stop = owed.Identity(), stop
	v.runs.Go(func() {
		defer stop()
		report := engine.NewRunner(engine.Config{}).Verify(ctx, owed, v.fn, "")
		if report == nil {
			return
		}
		if err := r.Ask(ctx, owed.Identity(), report); err != nil && ctx.Err() == nil {
			r.client.log.Warn("verdict not sent", zap.Error(err))
		}
	})
}
