package tool

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/turnlog/turnlog/content"
)

// Prefix returns s with every name behind prefix, which keeps the tools of sources
// apart that know nothing of each other. The tools themselves see the names that
// they gave themselves. Where a name becomes too long, or the prefix is not made
// for names, listing the tools is an error.
func Prefix(s Source, prefix string) Source {
	return rename(s, func(name string) string { return prefix + name })
}

// Rename returns s with some tools under other names, by the names that they gave
// themselves. The old ones reach nothing any more; what the source does not offer
// is passed over. Two tools of one name are an error when the tools are listed.
func Rename(s Source, names map[string]string) Source {
	names = maps.Clone(names)
	return rename(s, func(name string) string {
		if other, ok := names[name]; ok {
			return other
		}
		return name
	})
}

// Filter returns s with only those tools whose spec keep wants, for models and for
// calls alike. See [Matching] for patterns.
func Filter(s Source, keep func(Spec) bool) Source {
	return derived{s, func(tools []Tool) ([]Tool, error) {
		var out []Tool
		for _, t := range tools {
			if keep(t.Spec()) {
				out = append(out, t)
			}
		}
		return out, nil
	}}
}

// Matching is a predicate for [Filter]: the name matches one of the patterns, in
// which * stands for any number of characters.
func Matching(patterns ...string) func(Spec) bool {
	patterns = slices.Clone(patterns)
	return func(s Spec) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return content.Matches(p, s.Name) })
	}
}

// Federate returns one source with the tools of many. Where a name is offered
// twice, policy says which offer counts. In the journal all of them come from the
// source called name; to tell them apart there, give a host the sources one by one.
func Federate(name string, policy Collision, sources ...Source) Source {
	return federation{name, policy, slices.Clone(sources)}
}

type federation struct {
	name    string
	policy  Collision
	sources []Source
}

// Name returns the federation's own name.
func (f federation) Name() string { return f.name }

// Tools asks all the sources, in order.
func (f federation) Tools(ctx context.Context) ([]Tool, error) {
	c, err := Sample(ctx, f.sources, f.policy)
	if err != nil {
		return nil, err
	}
	out := make([]Tool, len(c.Offers))
	for i, o := range c.Offers {
		out[i] = o.Tool
	}
	return out, nil
}

func rename(s Source, name func(string) string) Source {
	r := &renaming{name: name, known: make(map[string]otherSpec)}
	return derived{s, r.tools}
}

// renaming gives tools other names. Sources are asked at every model call, so it
// remembers what it computed.
type renaming struct {
	name func(string) string

	mu    sync.Mutex
	known map[string]otherSpec // by the inner name
}

// otherSpec is what a spec became.
type otherSpec struct {
	inner Spec
	outer *checked
}

func (r *renaming) tools(tools []Tool) ([]Tool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Tool, len(tools))
	for i, t := range tools {
		var err error
		if out[i], err = r.tool(t); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b Tool) int { return strings.Compare(a.Spec().Name, b.Spec().Name) })
	for i := 1; i < len(out); i++ {
		if name := out[i].Spec().Name; name == out[i-1].Spec().Name {
			return nil, fmt.Errorf("two tools are called %q", name)
		}
	}
	return out, nil
}

func (r *renaming) tool(t Tool) (Tool, error) {
	spec := t.Spec()
	name := r.name(spec.Name)
	if name == spec.Name {
		return t, nil
	}
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("tool %s under another name: %w", spec.Name, err)
	}
	k, ok := r.known[spec.Name]
	if !ok || !reflect.DeepEqual(k.inner, spec) {
		other := spec
		other.Name = name
		c := check(other)
		k = otherSpec{spec, &c}
		r.known[spec.Name] = k
	}
	inner, _ := Compile(t)
	return &renamed{checked: k.outer, inner: inner, name: spec.Name}, nil
}

// renamed is a tool under another name.
type renamed struct {
	*checked
	inner Tool
	name  string // that the tool gave itself
}

// Call runs the tool, which sees its own name.
func (r *renamed) Call(ctx context.Context, c Call) (Output, error) {
	c.Name = r.name
	return r.inner.Call(ctx, c)
}

// door is the tool's own: under two names it is still one tool.
func (r *renamed) door() chan struct{} { return r.inner.(compiler).door() }

// Propose asks the tool under its own name. Policies judge the name that models
// and people see.
func (r *renamed) Propose(ctx context.Context, c Call) ([]Request, error) {
	name := c.Name
	c.Name = r.name
	requests, err := r.inner.(Proposer).Propose(ctx, c) // every compiled tool is one
	for i := range requests {
		requests[i].Spec, requests[i].Call.Name = r.spec, name
	}
	return requests, err
}
