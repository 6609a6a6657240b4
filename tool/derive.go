package tool

import (
	"context"
	"reflect"
	"sync"
)

// derived is a source whose tools are made from another source's.
type derived struct {
	Source
	derive func([]Tool) ([]Tool, error)
}

// Tools derives the tools from what the source offers now.
func (d derived) Tools(ctx context.Context) ([]Tool, error) {
	tools, err := d.Source.Tools(ctx)
	if err != nil {
		return nil, err
	}
	return d.derive(tools)
}

// respec returns a function that gives tools other specs. Sources are listed at
// every model call, so it remembers the specs that it computed.
func respec(change func(Spec) (Spec, error)) func([]Tool) ([]Tool, error) {
	type entry struct {
		inner Spec
		outer *checked // nil: the same spec
	}
	var mu sync.Mutex
	known := make(map[string]entry) // by inner name
	return func(tools []Tool) ([]Tool, error) {
		mu.Lock()
		defer mu.Unlock()
		out := make([]Tool, len(tools))
		for i, t := range tools {
			spec := t.Spec()
			k, ok := known[spec.Name]
			if !ok || !reflect.DeepEqual(k.inner, spec) {
				k = entry{inner: spec}
				outer, err := change(spec)
				if err != nil {
					return nil, err
				}
				if !reflect.DeepEqual(outer, spec) {
					c := check(outer)
					k.outer = &c
				}
				known[spec.Name] = k
			}
			out[i] = t
			if k.outer != nil {
				inner, _ := Compile(t) // an invalid schema fails each call
				out[i] = &respecced{checked: k.outer, inner: inner}
			}
		}
		return out, nil
	}
}

// respecced is a tool with another spec. The tool itself sees its own name.
type respecced struct {
	*checked
	inner Tool
}

// Call runs the tool.
func (r *respecced) Call(ctx context.Context, c Call) (Output, error) {
	c.Name = r.inner.Spec().Name
	return r.inner.Call(ctx, c)
}

// slot is the tool's own if it has one: a tool that runs one call at a time does
// so under every spec.
func (r *respecced) slot() chan struct{} {
	if own := r.inner.(compiler).slot(); own != nil {
		return own
	}
	return r.exclusive
}

// Propose asks the tool. Policies see the spec and the name that models see.
func (r *respecced) Propose(ctx context.Context, c Call) ([]Request, error) {
	name := c.Name
	c.Name = r.inner.Spec().Name
	requests, err := r.inner.(Proposer).Propose(ctx, c) // every compiled tool is one
	for i := range requests {
		requests[i].Spec, requests[i].Call.Name = r.spec, name
	}
	return requests, err
}
