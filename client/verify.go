package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/loop"
)

// verdictAgain is the pause before a verdict is sent again, for example while an inbox is full.
const verdictAgain = time.Second

// verifying runs the function that verifies a task, in this process. The session waits for its verdict.
type verifying struct {
	ctx  context.Context //nolint:containedctx // ends with Close
	runs sync.WaitGroup

	fn      extension.Verifier // nil: none
	running string             // the identity of the verification
	stop    context.CancelFunc // ends it; nil: none is running
}

// SetVerifier sets the function that verifies the open task, or the next one.
func (r *remote) SetVerifier(v extension.Verifier) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verify.fn = v
	r.verifyLocked()
}

// verifyLocked starts the verification that the session waits for, and stops one that it no longer waits for.
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
		for again := true; again; again = pause.For(ctx, verdictAgain) { // the session waits for the verdict
			err := r.Ask(ctx, owed.Identity(), report)
			if _, refused := errors.AsType[*commands.Rejection](err); err == nil || refused || r.failure() != nil || ctx.Err() != nil {
				return
			}
			r.client.log.Warn("verdict not sent yet", zap.Error(err))
		}
	})
}
