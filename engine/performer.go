package engine

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/loop"
)

// Report is an effect's report, with the effect's identity as its cause.
type Report struct {
	Cause   string
	Command commands.Command
}

// Performer keeps the running effects equal to the owed ones: Sync starts effects that are owed
// and stops the others. A finished effect stays known until it is no longer owed, so nothing is
// done twice. Only one goroutine at a time may call its methods, except Cancel.
type Performer struct {
	perform  func(context.Context, loop.Effect, *View) commands.Command
	due      func(loop.ArmTimer) time.Time
	panicked func(*PanicError)
	reports  chan Report
	idle     chan effect // to goroutines that wait for one
	running  map[string]*run
	ending   []*run // stopped by Sync
	round    int    // counts calls of Sync

	root   context.Context //nolint:containedctx // spans all effects; ended by Cancel
	cancel context.CancelCauseFunc
}

// effect is what a goroutine performs.
type effect struct {
	loop.Effect
	*run
	ctx  context.Context //nolint:containedctx // the effect's
	view *View
}

type run struct {
	id     string
	round  int // of the last Sync that found it owed
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// NewPerformer returns a performer whose effects end with ctx. perform performs one effect, in
// its own goroutine, and returns its report, or nil if there is none. If it panics, panicked is
// called. The performer itself reports timers, each when it is due.
func NewPerformer(
	ctx context.Context, perform func(context.Context, loop.Effect, *View) commands.Command,
	due func(loop.ArmTimer) time.Time, panicked func(*PanicError),
) *Performer {
	root, cancel := context.WithCancelCause(ctx)
	return &Performer{
		perform: perform, due: due, panicked: panicked,
		reports: make(chan Report), idle: make(chan effect), running: make(map[string]*run), root: root, cancel: cancel,
	}
}

// Reports delivers the effects' reports.
func (p *Performer) Reports() <-chan Report { return p.reports }

// Sync starts and stops effects. Before it starts the first one, it calls ready for the view of
// the session, and returns its error. It does not start an effect that stops another one if this
// performer began the other one: that one reports its own end.
func (p *Performer) Sync(owed []loop.Effect, ready func() (*View, error)) error {
	p.round++
	var view *View
	for _, e := range owed {
		id := e.Identity()
		r, known := p.running[id]
		if !known {
			if view == nil {
				var err error
				if view, err = ready(); err != nil {
					return err
				}
			}
			r = p.start(id, e, view)
		}
		if m, ok := e.(loop.RunMutator); ok && m.Stop {
			r.cancel(ErrStop) // it stays owed until it has reported its outcome
		}
		r.round = p.round
	}
	for id, r := range p.running {
		if r.round != p.round {
			r.cancel(ErrStop)
			delete(p.running, id)
			p.ending = append(p.ending, r)
		}
	}
	p.ending = slices.DeleteFunc(p.ending, (*run).over)
	return nil
}

func (r *run) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Settle waits for the effects that Sync has stopped, or until ctx ends.
func (p *Performer) Settle(ctx context.Context) {
	var kept []Report
	for _, r := range p.ending {
		kept = append(kept, p.await(r, ctx.Done())...)
	}
	p.ending = slices.DeleteFunc(p.ending, (*run).over)
	p.handBack(kept)
}

// await waits for an effect, or until enough is closed, and returns the reports that arrived
// meanwhile.
func (p *Performer) await(r *run, enough <-chan struct{}) (got []Report) {
	for {
		select {
		case rep := <-p.reports:
			got = append(got, rep)
		case <-r.done:
			return got
		case <-enough:
			return got
		}
	}
}

// handBack delivers reports that were received while waiting for other effects.
func (p *Performer) handBack(kept []Report) {
	for _, rep := range kept {
		go p.deliver(rep)
	}
}

// Skip records that an owed effect is done, without performing it.
func (p *Performer) Skip(id string) {
	r := &run{id: id, round: p.round, cancel: func(error) {}, done: make(chan struct{})}
	close(r.done)
	p.running[id] = r
}

func (p *Performer) start(id string, e loop.Effect, v *View) *run {
	if s := stops(e); s != nil && p.Has(s.Identity()) {
		p.Skip(id)
		return p.running[id]
	}
	r := &run{id: id, done: make(chan struct{})}
	p.running[id] = r
	if t, ok := e.(loop.ArmTimer); ok {
		p.arm(r, t)
		return r
	}
	x := effect{e, r, nil, v}
	x.ctx, r.cancel = context.WithCancelCause(p.root)
	select {
	case p.idle <- x:
	default:
		go p.serve(x)
	}
	return r
}

// arm reports a timer when it is due. Most timers are deadlines of calls that end earlier, so it takes no
// goroutine.
func (p *Performer) arm(r *run, e loop.ArmTimer) {
	t := time.AfterFunc(max(time.Until(p.due(e)), time.Millisecond), func() {
		defer close(r.done)
		p.deliver(Report{Cause: r.id, Command: commands.ReportTimer{Kind: e.Kind, ID: e.ID}})
	})
	r.cancel = func(error) {
		if t.Stop() {
			close(r.done)
		}
	}
}

// linger is how long a goroutine waits for another effect. A new goroutine must first grow its stack,
// which can cost as much as an effect.
const linger = time.Second

// serve performs an effect, then more effects until none arrives for a while.
func (p *Performer) serve(x effect) {
	next := time.NewTimer(linger)
	defer next.Stop()
	for {
		p.one(x)
		next.Reset(linger)
		select {
		case x = <-p.idle:
		case <-next.C:
			return
		case <-p.root.Done():
			return
		}
	}
}

// one performs one effect and delivers its report.
func (p *Performer) one(x effect) {
	defer close(x.done)
	defer x.cancel(nil)
	if c := p.contained(x.ctx, x.id, x.Effect, x.view); c != nil {
		p.deliver(Report{Cause: x.id, Command: c})
	}
}

// contained performs an effect. A panic in it ends its session, not the process.
func (p *Performer) contained(ctx context.Context, id string, e loop.Effect, v *View) (c commands.Command) {
	defer func() {
		if value := recover(); value != nil {
			c = nil
			p.panicked(&PanicError{Session: v.Session, Seq: v.Seq, During: id, Value: value, Stack: debug.Stack()})
		}
	}()
	return p.perform(ctx, e, v)
}

// Has reports whether an effect is running, or is done and was owed at the last Sync.
func (p *Performer) Has(id string) bool { return p.running[id] != nil }

// Done reports whether an effect is done and was owed at the last Sync.
func (p *Performer) Done(id string) bool { return p.Has(id) && p.running[id].over() }

// Stopping reports whether Sync has stopped an effect with a matching identity that has not ended.
func (p *Performer) Stopping(such func(id string) bool) bool {
	return slices.ContainsFunc(p.ending, func(r *run) bool { return such(r.id) && !r.over() })
}

// Forget lets a finished effect start again if it is still owed.
func (p *Performer) Forget(id string) { delete(p.running, id) }

// Stop ends the effects for which keep returns false, waits for them, and returns their
// identities. Their reports are dropped, and they are owed again.
func (p *Performer) Stop(cause error, keep func(id string) bool) (stopped []string) {
	var ending []*run
	for id, r := range p.running {
		if keep == nil || !keep(id) {
			r.cancel(cause)
			delete(p.running, id)
			stopped, ending = append(stopped, id), append(ending, r)
		}
	}
	var got []Report
	for _, r := range ending {
		got = append(got, p.await(r, nil)...)
	}
	p.handBack(slices.DeleteFunc(got, func(rep Report) bool { return !p.Has(rep.Cause) }))
	return stopped
}

// deliver waits until a report is received or all effects are canceled.
func (p *Performer) deliver(r Report) {
	select {
	case p.reports <- r:
	case <-p.root.Done():
	}
}

// Cancel ends every effect for good, without waiting. Any goroutine may call it.
func (p *Performer) Cancel(cause error) { p.cancel(cause) }
