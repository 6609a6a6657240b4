package actor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/audit/traces"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/tool"
)

// steps complete a command before it is decided.
func (d *driver) steps() []engine.Step {
	return []engine.Step{
		{Name: "verdict", Do: d.takeVerdict},
		d.Stamp(),
		{Name: "caller", Do: d.checkCaller},
		{Name: "agent", Do: d.openWithAgent},
		{Name: "model", Do: d.checkModel},
		{Name: "policy", Do: d.addPolicy},
		d.Sample(d.offered),
		{Name: "verifier", Do: d.addVerifier},
		d.CheckInput(func() *engine.Runner { return d.agent.Load().runner }),
		{Name: "hooks", Do: d.askHooks},
	}
}

// offered returns the tools that the session may use. A round keeps the tools that its model call was shown.
// If a worker leaves during the round, the reply's calls wait for the next worker.
func (d *driver) offered(ctx context.Context, c events.Config) (*engine.Catalog, error) {
	agent := d.agent.Load()
	now, err := d.node.offers.Catalog(ctx, c.Tools, agent.Terms, agent.terms)
	if t := d.State.Turn; err == nil && d.Catalog != nil && t != nil && (t.Stage == loop.StageModel || t.Stage == loop.StageReplied) &&
		slices.ContainsFunc(d.Catalog.Offers, func(o tool.Offer) bool { _, there := now.Lookup(o.Spec.Name); return !there }) {
		return d.Catalog, nil
	}
	return now, err
}

// decide handles a command and then updates the metrics, the lists and the snapshot. The caller
// syncs.
func (d *driver) decide(ctx context.Context, env commands.Envelope) error {
	env.Snapshot = d.snapshots.Offer(d.Head)
	entry, err := d.Handle(ctx, env)
	if err != nil || entry.Seq == 0 {
		return err
	}
	for range 1 + len(env.Also) {
		d.node.cfg.Metrics.CommandHandled(commands.NameOf(env.Command), "accepted")
	}
	if _, ok := env.Command.(commands.SwitchModel); ok {
		if err := d.bind(d.State.Config); err != nil {
			return err
		}
	}
	d.leaveLists(ctx)
	d.snapshots.Appended(ctx, d.State, d.Head, env.Snapshot != nil)
	return nil
}

// appendAgain is the pause before an append that no server accepted is tried again.
const appendAgain = 50 * time.Millisecond

// append writes an entry after the head. nats.ErrNoResponders means that no server accepted it, as happens
// during an election, so append retries. After any other error the entry may or may not have been written.
func (d *driver) append(ctx context.Context, head journal.Head, e events.Entry) (journal.Head, error) {
	if err := d.enterLists(ctx, e.Events); err != nil {
		return head, err
	}
	defer d.trial.Resume(d.trial.Pause())
	for began := time.Now(); ; {
		next, err := d.node.cell.Journal().Append(context.WithoutCancel(ctx), head, e)
		if took := time.Since(began); err == nil {
			d.node.tokens.Appended(took)
			_, claims := e.Events[0].(events.DriverClaimed)
			d.node.cfg.Metrics.EntryAppended(e, claims && head.Seq > 0 && !d.Parked, took)
			d.trace(ctx, e.Events)
		}
		if !errors.Is(err, nats.ErrNoResponders) || !d.lease.Fresh() || !pause.For(ctx, appendAgain) {
			return next, err
		}
	}
}

// askHooks asks the hooks of the session's start or end.
func (d *driver) askHooks(ctx context.Context, env *commands.Envelope) error {
	runner := d.agent.Load().runner
	point := extension.Point(loop.Brackets(d.State, *env))
	if point == "" || !runner.HasHooks(point) {
		return nil
	}
	env.Hooks = []commands.HookAnswer{runner.Hooks(ctx, extension.HookEvent{Point: point, Session: d.State.Session})}
	return context.Cause(ctx)
}

// trace updates the trace that the open turn belongs to. Tasks of a turn that an earlier driver started
// belong to no trace.
func (d *driver) trace(ctx context.Context, evs []events.Event) {
	for _, e := range evs {
		d.lineage.Take(e, func() traces.From { return traces.FromContext(ctx) })
		switch e.(type) { //nolint:gochecksumtype // other events change no turn
		case events.TurnStarted, events.TurnFinished:
			d.sender.Store(d.lineage.Sender())
		}
	}
}
