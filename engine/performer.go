package engine

import (
	"context"
	"runtime/debug"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/loop"
)

// Report is what an effect brought, with the effect's identity as its cause.
type Report struct {
	Cause   string
	Command commands.Command
}

// Performer keeps what runs equal to what is owed: Sync starts an effect that is
// owed and not yet running, and stops one that is not owed any more. An effect
// that is done stays known until it is no longer owed, so that nothing is done
// twice. Its methods belong to one goroutine at a time, except where they say
// otherwise.
type Performer struct {
	perform  func(context.Context, loop.Effect, *View) commands.Command
	panicked func(*PanicError)
	reports  chan Report
	running  map[string]*run
	ending   []*run // that Sync has stopped
	round    int    // of Sync

	root   context.Context //nolint:containedctx // the life of all effects, ended by Cancel
	cancel context.CancelCauseFunc
}

type run struct {
	round  int // of the last Sync that found it owed
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// NewPerformer returns a performer whose effects live at most as long as ctx.
// perform does one effect in its own goroutine and returns its report, or nil if
// there is none. If it panics, panicked is called.
func NewPerformer(
	ctx context.Context, perform func(context.Context, loop.Effect, *View) commands.Command, panicked func(*PanicError),
) *Performer {
	root, cancel := context.WithCancelCause(ctx)
	return &Performer{
		perform: perform, panicked: panicked,
		reports: make(chan Report), running: make(map[string]*run), root: root, cancel: cancel,
	}
}

// Reports delivers what effects bring.
func (p *Performer) Reports() <-chan Report { return p.reports }

// Sync starts and stops effects. Before the first one that it starts it calls ready for what
// effects see of the session, and does nothing more if that fails. An effect that stops
// another one is not started if this performer began that one, which reports its own end.
func (p *Performer) Sync(owed []loop.Effect, ready func() (*View, error)) error {
	p.round++
	view := &View{}
	for _, e := range owed {
		id := e.Identity()
		r, known := p.running[id]
		if !known {
			if ready != nil {
				var err error
				if view, err = ready(); err != nil {
					return err
				}
				ready = nil
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

// Settle waits until what Sync has stopped is over, or ctx is.
func (p *Performer) Settle(ctx context.Context) {
	var kept []Report
	for _, r := range p.ending {
		for ended := false; !ended && ctx.Err() == nil; {
			select {
			case rep := <-p.reports:
				kept = append(kept, rep)
			case <-r.done:
				ended = true
			case <-ctx.Done():
			}
		}
	}
	p.ending = slices.DeleteFunc(p.ending, (*run).over)
	p.handBack(kept)
}

// handBack delivers reports that were received while waiting for other effects.
func (p *Performer) handBack(kept []Report) {
	for _, rep := range kept {
		go p.deliver(rep)
	}
}

func (p *Performer) start(id string, e loop.Effect, v *View) *run {
	ctx, cancel := context.WithCancelCause(p.root)
	r := &run{cancel: cancel, done: make(chan struct{})}
	p.running[id] = r
	if s := stops(e); s != nil && p.Has(s.Identity()) {
		close(r.done)
		return r
	}
	go func() {
		defer close(r.done)
		defer cancel(nil)
		if c := p.contained(ctx, id, e, v); c != nil {
			p.deliver(Report{Cause: id, Command: c})
		}
	}()
	return r
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

// Has reports whether an effect runs, or is done and was owed when Sync last looked.
func (p *Performer) Has(id string) bool { return p.running[id] != nil }

// Forget lets an effect that is done be started again if it is still owed.
func (p *Performer) Forget(id string) { delete(p.running, id) }

// Stop ends the effects that keep does not name, waits for them, and returns their
// identities. What they report then is dropped; they are owed again afterwards.
func (p *Performer) Stop(cause error, keep func(id string) bool) (stopped []string) {
	var kept []Report // of effects that go on; handed back once the others have ended
	for id, r := range p.running {
		if keep != nil && keep(id) {
			continue
		}
		r.cancel(cause)
		delete(p.running, id)
		stopped = append(stopped, id)
		for ended := false; !ended; {
			select {
			case rep := <-p.reports:
				if _, runs := p.running[rep.Cause]; runs && keep != nil && keep(rep.Cause) {
					kept = append(kept, rep)
				}
			case <-r.done:
				ended = true
			}
		}
	}
	p.handBack(kept)
	return stopped
}

// deliver hands over a report once it is received.
func (p *Performer) deliver(r Report) {
	select {
	case p.reports <- r:
	case <-p.root.Done():
	}
}

// Cancel ends every effect for good, without waiting. Any goroutine may call it.
func (p *Performer) Cancel(cause error) { p.cancel(cause) }
