package actor

import (
	"context"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/worker/task"
)

// Between puts something between the node's drivers and the task queues, before
// Run.
func (n *Node) Between(f func(task.Dispatcher) task.Dispatcher) { n.tasks = f(n.tasks) }

// Hydrate is how a driver comes to the state of its session, from its snapshot or, if
// there is none, from the whole journal.
func Hydrate(ctx context.Context, cell *jetstream.Cell, s content.SessionID) (*loop.State, error) {
	d := &Driver{node: &Node{cell: cell}, journal: cell.Journal(), cursors: make(map[events.Lane]uint64)}
	state, head, err := d.node.snapshot(ctx, s)
	if err != nil {
		return nil, err
	}
	err = d.hydrateFrom(ctx, state, head)
	return d.state, err
}
