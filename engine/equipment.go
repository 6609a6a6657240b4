package engine

import (
	"encoding/json"
	"slices"

	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/tool"
)

// Equipment is what the agent of a session brings to its host, beside what the host has
// itself.
type Equipment struct {
	Hooks    []extension.Hook    // after the host's
	Mutators []extension.Mutator // as above
	Memory   extension.Notes     // in place of the host's; nil: the host's
	Terms    []tool.Terms        // of the tools that the session uses
	Policy   json.RawMessage     // what calls may do, a permission.Policy for the workers that run them; nil: nothing is said
	Gate     []string            // the gate of tasks that bring none; nil: none
	Retries  int                 // of that gate
}

// With is the configuration of a host for a session with that equipment. What the host
// itself wants to see, judge or change it still does, and first.
func (c Config) With(e Equipment) Config {
	c.Hooks = slices.Concat(c.Hooks, e.Hooks)
	c.Mutators = slices.Concat(c.Mutators, e.Mutators)
	if e.Memory != nil {
		c.Memory = e.Memory
	}
	return c
}
