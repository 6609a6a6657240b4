package agent

import (
	"context"
	"errors"
	"sync"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// Driver drives one session. It belongs to one goroutine, except where a method
// says otherwise.
type Driver struct {
	agent     *Agent
	facts     events.Config
	log       *zap.Logger
	stepper   *Stepper
	performer *engine.Performer
	news      chan struct{}   // something was decided from outside Next; one is enough
	held      []engine.Report // could not be decided yet; Next's alone

	mu      sync.Mutex // guards what follows; held while a command is decided
	state   *loop.State
	head    journal.Head
	catalog *engine.Catalog
	dead    error                  // why nothing can be decided any more
	driving bool                   // a Next is running
	gaveUp  bool                   // effects were given up: the next Next reports them lost
	lost    []content.Place        // the calls among them
	ended   bool                   // the hooks of the session's end were asked
	tools   *tool.Registry         // of this session alone, or nil
	gate    extension.Verifier     // of the task that this driver started, or nil
	drained []content.Item         // results for the host that it did not fetch yet
	begun   map[content.Place]bool // the calls that were run here: they say themselves what they used
	changed chan struct{}          // closed and replaced with every entry

	ready chan struct{} // see Ready

	live sync.Mutex         // one event at a time reaches the observers
	tap  func(events.Event) // a stream that looks on, or nil
}

// ID is the session's id.
func (d *Driver) ID() content.SessionID { return d.state.Session }

// Next carries the session on to the next step. ctx is the caller's patience: its
// end stops local effects and leaves the turn open, and the following Next goes on
// as after a crash. A turn that ended with an error is returned as *ProviderError,
// *ToolError or *MutatorError; the session stays usable. ErrInvalidState says that
// an approval has to be decided first, or that another Next is running.
func (d *Driver) Next(ctx context.Context) (Step, error) {
	return d.next(ctx, context.WithoutCancel(ctx))
}

// next is Next for a facade, whose own context cancels the turn when it ends.
func (d *Driver) next(ctx, turn context.Context) (Step, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	for {
		if err := d.takeArrived(ctx); err != nil {
			return nil, err
		}
		if err := d.cancelIfOver(ctx, turn); err != nil {
			return nil, err
		}
		step, cont, err := d.advance(ctx)
		switch {
		case err != nil || step != nil:
			return step, err
		case cont != nil:
			if err := d.command(ctx, *cont); err != nil {
				return nil, err
			}
			continue
		}
		if err := d.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// enter refuses a second Next, reports effects that were given up, and refuses to
// pass an approval that is still undecided: time may have decided it meanwhile.
func (d *Driver) enter(ctx context.Context) error {
	if err := d.occupy(); err != nil {
		return err
	}
	err := d.reclaim(ctx)
	if err == nil && d.begin() != nil {
		if err = d.takeArrived(ctx); err == nil {
			err = d.begin()
		}
	}
	if err != nil {
		d.leave()
	}
	return err
}

func (d *Driver) occupy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.dead != nil:
		return d.dead
	case d.driving:
		return &InvalidStateError{Op: "next", Reason: "busy", Detail: "another Next is running"}
	}
	d.driving = true
	return nil
}

func (d *Driver) begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stepper.Begin(d.state)
}

func (d *Driver) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.driving = false
	d.signal()
}

// advance makes what runs equal to what is owed and asks the stepper.
func (d *Driver) advance(ctx context.Context) (Step, *commands.Continue, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if d.dead != nil {
			return nil, nil, d.dead
		}
		owed := loop.Pending(d.state)
		stop, report := d.unstarted(owed)
		if stop == nil {
			if err := d.performer.Sync(owed, nil); err != nil { //nolint:contextcheck // effects outlive this Next if they run in the background
				return nil, nil, err
			}
			return d.stepper.Advance(d.state)
		}
		if err := d.decideLocked(ctx, stop.Identity(), report); err != nil {
			return nil, nil, err
		}
	}
}

// unstarted finds the model call or the verification that was cancelled before it
// was begun: nobody else would report that it has stopped.
func (d *Driver) unstarted(owed []loop.Effect) (stop loop.Effect, report commands.Command) {
	for _, e := range owed {
		var begun loop.Effect
		switch e := any(e).(type) {
		case loop.StopModel:
			begun, report = loop.CallModel{ModelCall: e.ModelCall}, commands.ReportModelStopped{ModelCall: e.ModelCall}
		case loop.StopVerify:
			begun = loop.Verify{Task: e.Task, Attempt: e.Attempt}
			report = commands.ReportVerify{Task: e.Task, Finished: events.VerifyFinished{Attempt: e.Attempt}}
		default:
			continue
		}
		if !d.performer.Has(begun.Identity()) && !d.performer.Has(e.Identity()) {
			return e, report
		}
	}
	return nil, nil
}

// cancelIfOver cancels the open turn if the context that it runs for has ended.
func (d *Driver) cancelIfOver(ctx, turn context.Context) error {
	if turn.Err() == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.state.Turn; d.dead != nil || t == nil && d.state.Task == nil || t != nil && t.Cancel != nil {
		return d.dead
	}
	return d.decideLocked(ctx, ulid.Make().String(), commands.Cancel{Scope: commands.ScopeTurn, Reason: contextReason(turn)})
}

// wait takes in the next report, or notices that somebody else decided something.
func (d *Driver) wait(ctx context.Context) error {
	select {
	case r := <-d.performer.Reports():
		return d.take(ctx, r)
	case <-d.news:
		return nil
	case <-ctx.Done():
		return d.giveUp(context.Cause(ctx))
	}
}

// takeArrived takes in the reports that have come already.
func (d *Driver) takeArrived(ctx context.Context) error {
	for len(d.held) > 0 {
		r := d.held[0]
		d.held = d.held[1:]
		if err := d.take(ctx, r); err != nil {
			return err
		}
	}
	for {
		select {
		case r := <-d.performer.Reports():
			if err := d.take(ctx, r); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// take decides on a report. Effects report once, so one that cannot be decided now,
// say because a tool source is down, is kept for the following Next; and a timer that
// came before its time, by a clock that was set back, is armed again.
func (d *Driver) take(ctx context.Context, r engine.Report) error {
	if _, ok := r.Command.(commands.ReportTimer); ok {
		d.performer.Forget(r.Cause)
	}
	err := d.decide(ctx, r.Cause, r.Command)
	if err != nil {
		d.held = append([]engine.Report{r}, d.held...)
	}
	return err
}

// Close stops driving. The session stays as it is and can be started again. Close
// waits for what was stopped and still has to say what it used.
func (d *Driver) Close(ctx context.Context) error {
	d.end(ctx)
	d.mu.Lock()
	idle := !d.driving && d.dead == nil
	d.mu.Unlock()
	if idle {
		d.performer.Settle(ctx)
	}
	d.mu.Lock()
	if d.dead == nil || !errors.Is(d.dead, ErrClosed) {
		d.dead = ErrClosed
		d.stir()
	}
	driving := d.driving
	d.mu.Unlock()
	d.performer.Cancel(ErrClosed)
	if driving {
		d.wake()
		return nil
	}
	d.performer.Stop(ErrClosed, nil)
	return nil
}

// end asks the hooks of the session's end, once. Nobody can veto it.
func (d *Driver) end(ctx context.Context) {
	d.mu.Lock()
	asked := d.ended
	d.ended = true
	d.mu.Unlock()
	if asked {
		return
	}
	said := d.agent.runner.Hooks(ctx, extension.HookEvent{Point: extension.SessionEnd, Session: d.ID()})
	if err := d.recordHooks(ctx, said); err != nil {
		d.log.Warn("what the hooks of the session's end said is not recorded", zap.Error(err))
	}
}
