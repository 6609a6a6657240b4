package agent

import (
	"context"
	"errors"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

func (d *driver) decide(ctx context.Context, cause string, c commands.Command) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead != nil {
		return d.dead
	}
	return d.decideLocked(ctx, cause, c)
}

// decideLocked handles a command. After an append with an unknown outcome, or a panic, the driver
// handles no more commands: a new one reads the outcome from the journal.
func (d *driver) decideLocked(ctx context.Context, cause string, c commands.Command) error {
	before := engine.See(d.state)
	entry, err := d.session.Handle(ctx, commands.Envelope{ID: cause, Session: d.state.Session, Command: c})
	if failed := d.session.Failed(); failed != nil {
		d.fail(failed)
		return d.dead
	}
	if r, ok := errors.AsType[*commands.Rejection](err); ok {
		d.showLive(events.Refused{Command: cause, Reason: r.Reason, Detail: r.Detail})
	}
	if err != nil || entry.Seq == 0 {
		return err
	}
	d.observers.Show(entry, before, d.state)
	d.watcher.Applied(d.state, journal.Record{Head: d.session.Head, Entry: entry})
	return nil
}

// newSession makes a session that can handle commands from one that was read.
func (d *driver) newSession(read engine.Replica) {
	d.session = engine.Session{Replica: read, Log: d.log, Append: d.append}
	d.session.Steps = []engine.Step{
		d.session.Stamp(),
		{Name: "model", Do: keepModel},
		{Name: "policy", Do: d.addPolicy},
		d.session.Sample(func(ctx context.Context, _ events.Config) (*engine.Catalog, error) {
			return engine.NewCatalog(ctx, d.sources, d.agent.cfg.Collision, d.agent.cfg.Offered, false)
		}),
		d.session.CheckInput(func() *engine.Runner { return d.agent.runner }),
	}
	d.state = read.State
}

// keepModel refuses another model: a session in this process uses the model value of its agent.
func keepModel(_ context.Context, env *commands.Envelope) error {
	if _, ok := env.Command.(commands.SwitchModel); ok {
		return commands.Refuse(commands.ReasonInvalidInput, "the model belongs to the agent: resume the session with an agent that has another one")
	}
	return nil
}

// addPolicy attaches what the program's policy allows the session. The program's own agents are trusted
// to name themselves, unlike agents that a client of a deployment sends.
func (d *driver) addPolicy(_ context.Context, env *commands.Envelope) error {
	if d.policy == nil {
		of := d.state.Policy.Subjects
		if len(of) == 0 {
			var own events.Subject
			if d.facts.Agent != nil {
				own.Agent = d.facts.Agent.Name
			}
			of = append([]events.Subject{own}, d.callers...)
		}
		d.policy = new(d.agent.cfg.Policy.For(of...))
	}
	env.Policy = d.policy
	return nil
}

// append writes an entry. It ignores the caller's cancellation of ctx, which would leave the outcome of
// a write unknown.
func (d *driver) append(ctx context.Context, head journal.Head, e events.Entry) (journal.Head, error) {
	return d.agent.cfg.Journal.Append(context.WithoutCancel(ctx), head, e)
}
