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
// every model call, so it remembers what it compiled.
func respec(change func(Spec) (Spec, error)) func([]Tool) ([]Tool, error) {
	type entry struct {
		spec  Spec
		outer *compiled // without functions; nil: the same spec
		inner *compiled // the last tool
		tool  Tool      // inner with the other spec
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
			if !ok || !reflect.DeepEqual(k.spec, spec) {
				k = entry{spec: spec}
				outer, err := change(spec)
				if err != nil {
					return nil, err
				}
				if !reflect.DeepEqual(outer, spec) {
					k.outer = compileSpec(outer)
				}
				known[spec.Name] = k
			}
			if out[i] = t; k.outer == nil {
				continue
			}
			if c := compile(t); c != k.inner { // an invalid schema fails each call
				k.inner, k.tool = c, respecced(*k.outer, c)
				known[spec.Name] = k
			}
			out[i] = k.tool
		}
		return out, nil
	}
}

// respecced returns a tool that goes by the spec of outer. The tool itself sees its own
// name; policies see the spec and the name that models see.
func respecced(outer compiled, inner *compiled) Tool {
	outer.declared = inner.declared
	outer.declared.Name = outer.spec.Name
	if inner.slot != nil { // it runs one call at a time under every spec
		outer.slot = inner.slot
	}
	outer.call = func(ctx context.Context, c Call) (Output, error) {
		c.Name = inner.spec.Name
		return inner.call(ctx, c)
	}
	outer.propose = func(ctx context.Context, c Call) ([]Request, error) {
		name := c.Name
		c.Name = inner.spec.Name
		requests, err := inner.propose(ctx, c)
		for i := range requests {
			requests[i].Spec, requests[i].Call.Name = outer.spec, name
		}
		return requests, err
	}
	return &outer
}
