package agent

import (
	"context"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/worker/task"
)

// Calls is the handle on the session's open and background calls. Any goroutine may
// use it.
type Calls struct{ d *Driver }

// Calls returns the handle on the session's open and background calls. Any goroutine
// may call it.
func (d *Driver) Calls() *Calls { return &Calls{d} }

// List returns the calls that are not over: those of the open round that wait for
// their result, in call order, then those in the background.
func (c *Calls) List() []task.Info {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	return openCalls(c.d.state)
}

func openCalls(s *loop.State) []task.Info {
	var all []loop.Call
	if s.Turn != nil {
		all = slices.Clone(s.Turn.Calls)
	}
	var out []task.Info
	for _, c := range append(all, s.Background...) {
		if c.Status != "" && !c.Retried() {
			continue
		}
		out = append(out, task.Info{
			Call: c.ID, Place: c.Place, Turn: c.Turn, Round: c.Round, Tool: c.Name, Attempt: c.Attempt,
			Running: c.Running(), Background: c.InBackground(), Queue: c.Routing.Queue, Deadline: c.Deadline,
		})
	}
	return out
}

// Cancel ends one call; its turn goes on. The model is told, unless the call was one
// in the background. A call that is over is ErrInvalidState.
func (c *Calls) Cancel(ctx context.Context, id content.CallID, reason string) error {
	return c.d.ask(ctx, id, commands.Cancel{Scope: commands.ScopeCall, Call: id, Reason: reason})
}

// Detach sends a running call to the background: the round goes on with a
// placeholder, and the outcome follows as a notification.
func (c *Calls) Detach(ctx context.Context, id content.CallID) error {
	return c.d.ask(ctx, id, commands.DetachCall{Call: id})
}

// WaitIdle waits until no call is running. What the calls brought is recorded by
// then: Drain has it, or the following Next. Calls in the background end without
// anybody's doing; those of the foreground only while a Next runs.
func (c *Calls) WaitIdle(ctx context.Context) error {
	for {
		c.d.mu.Lock()
		dead, changed, calls := c.d.dead, c.d.changed, openCalls(c.d.state)
		c.d.mu.Unlock()
		switch {
		case dead != nil:
			return dead
		case !slices.ContainsFunc(calls, func(i task.Info) bool { return i.Running }):
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Drain returns, once each and in the order in which they came, the results of calls
// that ended in the background and are delivered by hand (see [task.AsyncConfig]): a
// Tool item for each. The journal holds them too; a driver that is started later does
// not hand them out again.
func (c *Calls) Drain() []content.Item {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	items := c.d.drained
	c.d.drained = nil
	return items
}

// keepManual keeps the results that the host wants for itself. It runs before they
// are folded, while their calls are known.
func (d *Driver) keepManual(evs []events.Event) {
	for _, ev := range evs {
		r, ok := ev.(events.ToolResultReceived)
		if !ok || !r.Late {
			continue
		}
		if call, ok := d.state.Call(r.Result.CallID); ok && call.Routing.Manual {
			d.drained = append(d.drained, content.NewItem(content.Tool, content.ResultPart(r.Result)))
		}
	}
}

// Ready returns a channel that has an element while Next would return more than
// AwaitingInput: something arrived while no Next was running. Any goroutine may
// receive from it.
func (d *Driver) Ready() <-chan struct{} { return d.ready }

// signal keeps what Ready says true. The caller holds the lock.
func (d *Driver) signal() {
	if d.driving || d.stepper == nil {
		return
	}
	if d.stepper.more(d.state) {
		select {
		case d.ready <- struct{}{}:
		default:
		}
		return
	}
	select {
	case <-d.ready:
	default:
	}
}
