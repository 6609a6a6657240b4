package agent

import (
	"context"
	"errors"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/loop"
)

// reclaim reports abandoned effects as lost.
func (d *driver) reclaim(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.dead != nil:
		return d.dead
	case !d.gaveUp:
		return nil
	}
	claim := commands.Claim{Node: "in-process", Lost: d.lost}
	if err := d.decideLocked(ctx, ulid.Make().String(), claim); err != nil {
		return err
	}
	d.gaveUp, d.lost = false, nil
	return nil
}

// giveUp stops local effects; background calls continue. The following Next reports the stopped
// effects as lost.
func (d *driver) giveUp(cause error) error {
	background, places := d.running()
	stopped := d.performer.Stop(cause, func(id string) bool { return background[id] })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gaveUp = true
	for _, id := range stopped {
		if p, ok := places[id]; ok {
			d.lost = append(d.lost, p)
		}
	}
	return cause
}

// panicked ends the driver whose effect panicked.
func (d *driver) panicked(e *engine.PanicError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail(e)
}

// fail makes the driver refuse everything from now on. The caller holds the lock.
func (d *driver) fail(err error) {
	if d.dead != nil {
		return
	}
	if p, ok := errors.AsType[*engine.PanicError](err); ok {
		d.log.Error("session panicked", zap.Error(err), zap.ByteString("stack", p.Stack))
	}
	d.dead = err
	d.performer.Cancel(err)
	d.watcher.Stopped()
	d.wake() // no report will
}

// running returns the owed tool calls by identity: the calls in the background, and the places of
// the others.
func (d *driver) running() (background map[string]bool, places map[string]content.Place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	background, places = make(map[string]bool), make(map[string]content.Place)
	for _, e := range loop.Pending(d.state) {
		switch t, ok := e.(loop.RunTool); {
		case !ok:
		case t.Call.InBackground():
			background[e.Identity()] = true
		default:
			places[e.Identity()] = t.Call.Place
		}
	}
	return background, places
}
