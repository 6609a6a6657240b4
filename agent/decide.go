package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

func (d *Driver) decide(ctx context.Context, cause string, c commands.Command) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead != nil {
		return d.dead
	}
	return d.decideLocked(ctx, cause, c)
}

// decideLocked is the whole life of a command: decide, append, fold, show. After
// an append that is not certainly written the driver is dead: a fresh one reads
// what became of it.
func (d *Driver) decideLocked(ctx context.Context, cause string, c commands.Command) error {
	if err := d.sample(ctx); err != nil {
		return err
	}
	env := commands.Envelope{
		ID: cause, Session: d.state.Session, At: content.TimeOf(time.Now()), Command: c, Catalog: d.catalog.Facts(),
	}
	if r, ok := c.(commands.ResolveApproval); ok {
		env.Checks = d.agent.runner.CheckPatched(ctx, d.state, d.catalog, r)
	}
	if e := d.log.Check(zap.DebugLevel, "command in hand"); e != nil {
		e.Write(zap.Reflect("envelope", env))
	}
	evs, err := loop.Decide(d.state, env)
	if r, ok := errors.AsType[*loop.Rejection](err); ok {
		d.showLive(events.Refused{Command: cause, Reason: r.Reason, Detail: r.Detail})
	}
	if err != nil || len(evs) == 0 {
		return err
	}
	entry := events.Entry{
		Session: d.state.Session, Cause: cause, At: max(env.At, d.state.At), Epoch: epochOf(evs, d.state.Epoch), Events: evs,
	}
	// The caller's patience must not leave the outcome of a write unknown.
	next, err := d.agent.cfg.Journal.Append(context.WithoutCancel(ctx), d.head, entry)
	if err != nil {
		d.die(fmt.Errorf("append %s after %d: %w", d.state.Session, d.head.Seq, err))
		return d.dead
	}
	entry.Seq, d.head = next.Seq, next
	before := seen{transcript: d.state.Transcript, phase: d.state.Phase()}
	d.state.Fold(entry)
	d.show(entry, before)
	d.watcher.Applied(d.state, journal.Record{Head: next, Entry: entry})
	return nil
}

// epochOf is the epoch that an entry is written under: the one it claims, if it
// does.
func epochOf(evs []events.Event, now uint64) uint64 {
	if c, ok := evs[0].(events.DriverClaimed); ok {
		return c.Epoch
	}
	return now
}

// sample looks at what the tool sources offer now.
func (d *Driver) sample(ctx context.Context) error {
	cat, err := engine.NewCatalog(ctx, d.sources, d.agent.cfg.Collision, d.agent.cfg.Offered, nil)
	if err != nil {
		return err
	}
	d.catalog = cat
	return nil
}
