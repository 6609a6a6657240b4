package tool

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
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

// Rename returns s with other names for its tools: name returns the name that models
// see, given the tool's own, and "" leaves the tool out. The tools themselves see their
// own names. Listing the tools is an error if a name is invalid or two are equal.
func Rename(s Source, name func(own string) string) Source {
	renamed := respec(func(spec Spec) (Spec, error) {
		own := spec.Name
		if spec.Name = name(own); spec.Name == "" {
			return spec, nil
		}
		if err := checkName(spec.Name); err != nil {
			return spec, fmt.Errorf("rename tool %s: %w", own, err)
		}
		return spec, nil
	})
	return derived{s, func(tools []Tool) ([]Tool, error) {
		out, err := renamed(tools)
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(out, func(a, b Tool) int { return strings.Compare(a.Spec().Name, b.Spec().Name) })
		for i := 1; i < len(out); i++ {
			if name := out[i].Spec().Name; name == out[i-1].Spec().Name {
				return nil, fmt.Errorf("two tools are called %q", name)
			}
		}
		return out, nil
	}}
}

// respec returns a function that gives tools other specs and leaves out those without a
// name. Sources are listed at every model call, so it remembers what it derived.
func respec(change func(Spec) (Spec, error)) func([]Tool) ([]Tool, error) {
	type derivation struct{ inner, outer *compiled }
	var mu sync.Mutex
	known := make(map[string]derivation) // by the tool's own name
	return func(tools []Tool) ([]Tool, error) {
		mu.Lock()
		defer mu.Unlock()
		var out []Tool
		for _, t := range tools {
			own := t.Spec()
			spec, err := change(own)
			switch {
			case err != nil:
				return nil, err
			case spec.Name == "":
				continue
			case reflect.DeepEqual(spec, own):
				out = append(out, t)
				continue
			}
			k, inner := known[own.Name], compile(t) // an invalid schema fails each call
			if k.inner != inner {
				k = derivation{inner, respecced(inner, spec, k.outer)}
				known[own.Name] = k
			}
			out = append(out, k.outer)
		}
		return out, nil
	}
}

// respecced returns a tool with another spec. The tool itself sees its own name; policies
// see the spec and the name that models see. before is the previous derivation, or nil.
func respecced(inner *compiled, spec Spec, before *compiled) *compiled {
	outer := *inner
	outer.spec, outer.digest, outer.declared.Name = spec, SpecDigest(spec), spec.Name
	switch {
	case inner.slot != nil || !spec.Exclusive:
	case before != nil && before.slot != nil: // it runs one call at a time in every listing
		outer.slot = before.slot
	default:
		outer.slot = make(chan struct{}, 1)
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
			requests[i].Spec, requests[i].Call.Name = spec, name
		}
		return requests, err
	}
	return &outer
}
