package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
)

// Prefix returns s with prefix before every name, which keeps apart the tools of
// unrelated sources. The tools themselves see their own names. Listing the tools is
// an error if a name becomes too long or the prefix holds characters that names
// cannot have.
func Prefix(s Source, prefix string) Source {
	return rename(s, func(name string) string { return prefix + name })
}

// Rename returns s with some tools renamed; names maps a tool's own name to the new
// one. The old name no longer reaches the tool, and names that the source does not
// offer are ignored. Listing the tools is an error if two have the same name.
func Rename(s Source, names map[string]string) Source {
	names = maps.Clone(names)
	return rename(s, func(name string) string {
		if other, ok := names[name]; ok {
			return other
		}
		return name
	})
}

// Filter returns s with only the tools whose spec keep accepts. The others can be
// neither seen nor called. See [Matching] for patterns.
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

// Matching returns a predicate for [Filter]: the name matches one of the patterns,
// in which * matches any number of characters.
func Matching(patterns ...string) func(Spec) bool {
	patterns = slices.Clone(patterns)
	return func(s Spec) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return content.Matches(p, s.Name) })
	}
}

// Federate merges sources into one. If several offer a tool of the same name,
// policy decides which offer counts. In the journal all tools come from the source
// called name; to tell the sources apart there, pass them to the host one by one.
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

// Tools lists the tools of all sources, in order.
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

// rename returns s with the names that name gives, sorted by them.
func rename(s Source, name func(string) string) Source {
	renamed := respec(func(spec Spec) (Spec, error) {
		own := spec.Name
		spec.Name = name(own)
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
