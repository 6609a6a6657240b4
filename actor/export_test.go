package actor

import "github.com/turnlog/turnlog/task"

// Between puts something between the node's drivers and the task queues, before
// Run.
func (n *Node) Between(f func(task.Dispatcher) task.Dispatcher) { n.tasks = f(n.tasks) }
