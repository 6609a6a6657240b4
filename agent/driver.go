package agent

import (
	"context"
	"errors"
	"iter"
	"sync"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// driver runs one session in this process. It is the backend of a session.Session. Effects run
// while a Next waits; calls in the background always run.
type driver struct {
	agent     *Agent
	facts     events.Config
	callers   []events.Subject // what the policy knows about the sessions that this one works for
	sources   []tool.Source
	log       *zap.Logger
	performer *engine.Performer
	news      chan struct{}   // something was decided outside of Next; one is enough
	policy    *events.Policy  // the program's, for this session; nil: no command was decided yet
	held      []engine.Report // reports that could not be decided yet; only Next uses it

	mu       sync.Mutex // guards what follows; held while a command is decided
	session  engine.Session
	state    *loop.State            // the session's
	dead     error                  // why nothing can be decided any more
	driving  bool                   // a Next is running
	gaveUp   bool                   // effects were abandoned: the following Next reports them as lost
	lost     []content.Place        // the calls among them
	ended    bool                   // the hooks of the session's end were asked
	verifier extension.Verifier     // verifies the task that this driver started, or nil
	begun    map[content.Place]bool // the calls that ran here: they report their own usage
	watcher  session.Watcher

	live sync.Mutex // also guards watcher

	observers engine.Observers
}

// showLive shows a live event.
func (d *driver) showLive(ev events.Event) {
	d.live.Lock()
	watcher := d.watcher
	d.live.Unlock()
	watcher.Live(ev)
	d.observers.ShowLive(ev)
}

// Watch registers the watcher.
func (d *driver) Watch(w session.Watcher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live.Lock()
	defer d.live.Unlock()
	d.watcher = w
}

// View calls f with the session as it is now.
func (d *driver) View(f func(*loop.State, journal.Head)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.state, d.session.Head)
	return d.dead
}

// Ask decides a command, from any goroutine.
func (d *driver) Ask(ctx context.Context, id string, c commands.Command) error {
	err := d.decide(ctx, id, c)
	d.wake()
	return err
}

// SetVerifier sets the verifier of the open task, or else the next one.
func (d *driver) SetVerifier(v extension.Verifier) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.verifier = v
}

// Enter refuses a second Next.
func (d *driver) Enter(context.Context) (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.dead != nil:
		return nil, d.dead
	case d.driving:
		return nil, &session.InvalidStateError{Op: "next", Reason: "busy", Detail: "another Next is running"}
	}
	d.driving = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.driving = false
	}, nil
}

// Sync reports abandoned effects as lost, decides on the reports that have arrived, starts the
// owed effects, and stops the others.
func (d *driver) Sync(ctx context.Context) error {
	if err := d.reclaim(ctx); err != nil {
		return err
	}
	if err := d.takeArrived(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead != nil {
		return d.dead
	}
	owed := loop.Pending(d.state)
	return d.performer.Sync(owed, func() (*engine.View, error) { return d.session.View(owed), nil })
}

// Wait decides on the next report, or returns when something was decided elsewhere.
func (d *driver) Wait(ctx context.Context) error {
	select {
	case r := <-d.performer.Reports():
		return d.take(ctx, r)
	case <-d.news:
		return nil
	case <-ctx.Done():
		return d.giveUp(context.Cause(ctx))
	}
}

// Read yields the session's entries so far.
func (d *driver) Read(ctx context.Context) iter.Seq2[journal.Record, error] {
	return d.agent.cfg.Journal.Read(ctx, d.ID(), 0)
}

// wake makes a waiting Next check again.
func (d *driver) wake() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// takeArrived decides on the reports that have arrived.
func (d *driver) takeArrived(ctx context.Context) error {
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

// take decides on a report. Effects report once, so a report that cannot be decided now, for
// example because a tool source is down, is kept for the following Next. A timer that fired
// early, because the clock was set back, is armed again.
func (d *driver) take(ctx context.Context, r engine.Report) error {
	if _, ok := r.Command.(commands.ReportTimer); ok {
		d.performer.Forget(r.Cause)
	}
	err := d.decide(ctx, r.Cause, r.Command)
	if err != nil {
		d.held = append([]engine.Report{r}, d.held...)
	}
	return err
}

// Close stops driving. The session does not change and can be started again. Close waits for
// stopped effects to report their usage.
func (d *driver) Close(ctx context.Context) error {
	d.end(ctx)
	d.mu.Lock()
	idle := !d.driving && d.dead == nil
	d.mu.Unlock()
	if idle {
		d.performer.Settle(ctx)
	}
	d.mu.Lock()
	if d.dead == nil || !errors.Is(d.dead, session.ErrClosed) {
		d.dead = session.ErrClosed
		d.watcher.Stopped()
	}
	driving := d.driving
	d.mu.Unlock()
	d.performer.Cancel(session.ErrClosed)
	if driving {
		d.wake()
		return nil
	}
	d.performer.Stop(session.ErrClosed, nil)
	return nil
}

// end runs the hooks of the session's end, once. They cannot veto it.
func (d *driver) end(ctx context.Context) {
	d.mu.Lock()
	asked := d.ended
	d.ended = true
	d.mu.Unlock()
	if asked {
		return
	}
	answer := d.agent.runner.Hooks(ctx, extension.HookEvent{Point: extension.SessionEnd, Session: d.ID()})
	if err := d.recordHooks(ctx, answer); err != nil {
		d.log.Warn("decisions of the session-end hooks not recorded", zap.Error(err))
	}
}

// ID is the session's id. Effects read it while a command is decided, so it must not come from the state.
func (d *driver) ID() content.SessionID { return d.observers.Session }
