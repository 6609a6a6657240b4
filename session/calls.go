package session

import (
	"context"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/worker/task"
)

// Calls is the handle on the session's open and background calls.
type Calls struct{ s *Session }

// Calls returns the handle on the session's open and background calls.
func (s *Session) Calls() *Calls { return &Calls{s} }

// List returns the open calls: first the calls of the open round without a result, in call order,
// then the calls in the background.
func (c *Calls) List() (all []task.Info) {
	c.s.view(func(st *loop.State) { all = openCalls(st) })
	return all
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

// Cancel ends one call; its turn continues. The model sees the cancellation, unless the call
// ran in the background. An empty reason means user_cancelled. If the call has ended, Cancel
// returns ErrInvalidState.
func (c *Calls) Cancel(ctx context.Context, id content.CallID, reason string) error {
	return c.s.ask(ctx, ulid.Make().String(), id, commands.Cancel{Scope: commands.ScopeCall, Call: id, Reason: reason})
}

// Detach sends a running call to the background: the round continues with a placeholder,
// and the outcome arrives as a notification.
func (c *Calls) Detach(ctx context.Context, id content.CallID) error {
	return c.s.ask(ctx, ulid.Make().String(), id, commands.DetachCall{Call: id})
}

// WaitIdle waits until no call is running. The results are recorded by then: Drain or the
// following Next returns them. For a session in this process, calls in the foreground end only
// while a Next runs.
func (c *Calls) WaitIdle(ctx context.Context) error {
	for {
		var running bool
		var changed <-chan struct{}
		err := c.s.backend.View(func(st *loop.State, _ journal.Head) {
			changed = c.s.changed
			running = slices.ContainsFunc(openCalls(st), func(i task.Info) bool { return i.Running })
		})
		if err != nil || !running {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Drain returns the results of background calls that are delivered manually (see
// [task.AsyncConfig]), each once and in order of arrival, as Tool items. The journal holds
// them too; a session that is opened later does not return them again.
func (c *Calls) Drain() (items []content.Item) {
	c.s.view(func(*loop.State) { items, c.s.drained = c.s.drained, nil })
	return items
}

// keepManual keeps a late result for Drain.
func (s *Session) keepManual(r events.ToolResultReceived) {
	if i := slices.Index(s.manual, r.Result.CallID); i >= 0 && r.Late {
		s.manual = slices.Delete(s.manual, i, i+1)
		s.drained = append(s.drained, content.NewItem(content.Tool, content.ResultPart(r.Result)))
	}
}
