package actor

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/events"
)

// extended is the ask that opens a session, with the hooks and mutators of the node
// beside those that it names: which of them stand in its way is not for a client to
// say.
func (n *Node) extended(c commands.OpenSession) commands.OpenSession {
	hooks, mutators := n.runner.Registrations()
	c.Config.Hooks = registered(c.Config.Hooks, hooks)
	c.Config.Mutators = registered(c.Config.Mutators, mutators)
	return c
}

// registered are the registrations of the node, and then the others.
func registered(named, own []events.Registration) []events.Registration {
	for _, r := range named {
		if !slices.ContainsFunc(own, func(o events.Registration) bool { return o.Name == r.Name }) {
			own = append(own, r)
		}
	}
	return own
}
