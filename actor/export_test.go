package actor

import (
	"context"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/worker/task"
)

// Between wraps the task queues of a node's drivers. It must be called before Run.
func (n *Node) Between(f func(task.Dispatcher) task.Dispatcher) { n.tasks = f(n.tasks) }

// Taken is how many places of the node are counted as taken.
func (n *Node) Taken() int64 { return n.crowd.taken.Load() }

// Hydrate reads a session as its driver does.
func Hydrate(ctx context.Context, cell *jetstream.Cell, s content.SessionID) (*loop.State, error) {
	r, err := (&Node{cell: cell}).reader(nil).Read(ctx, s)
	return r.State, err
}
