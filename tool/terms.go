package tool

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Terms override what tools declare about themselves. The host is responsible for them: a tool that it
// declares read-only runs without a question, and runs again if its worker is lost.
type Terms struct {
	Tool      string           `json:"tool"`                 // the tool's name; * matches any characters
	Effects   *content.Effects `json:"effects,omitempty"`    // nil: as the tool declares
	Exclusive *bool            `json:"exclusive,omitempty"`  // nil: likewise; an exclusive tool still runs one call at a time
	Timeout   time.Duration    `json:"timeout,omitempty"`    // timeout of a call, unless the tool's own is shorter; zero: the tool's own
	MaxOutput int              `json:"max_output,omitempty"` // bytes of output, likewise
}

// Under returns s with its tools under the terms. The first terms that match a
// tool's name apply to it.
func Under(s Source, terms ...Terms) Source {
	if len(terms) == 0 {
		return s
	}
	return derived{s, under(slices.Clone(terms))}
}

// under returns a function that puts tools under terms. Sources are listed at every model call, so the
// function remembers the tools that it derived.
func under(terms []Terms) func([]Tool) ([]Tool, error) {
	type derivation struct{ inner, outer *compiled }
	var mu sync.Mutex
	known := make(map[string]derivation) // by name
	return func(tools []Tool) ([]Tool, error) {
		mu.Lock()
		defer mu.Unlock()
		out := make([]Tool, len(tools))
		for i, t := range tools {
			own := t.Spec()
			spec := Bound(own, terms...)
			if reflect.DeepEqual(spec, own) {
				out[i] = t
				continue
			}
			k, inner := known[own.Name], compile(t) // an invalid schema fails each call
			if k.inner != inner {
				k = derivation{inner, respecced(inner, spec, k.outer)}
				known[own.Name] = k
			}
			out[i] = k.outer
		}
		return out, nil
	}
}

// respecced returns a tool with another spec, which policies see as well. before is the previous
// result, or nil.
func respecced(inner *compiled, spec Spec, before *compiled) *compiled {
	outer := *inner
	outer.spec, outer.digest = spec, SpecDigest(spec)
	switch {
	case inner.slot != nil || !spec.Exclusive:
	case before != nil && before.slot != nil: // it runs one call at a time in every listing
		outer.slot = before.slot
	default:
		outer.slot = make(chan struct{}, 1)
	}
	outer.propose = func(ctx context.Context, c Call) ([]Request, error) {
		requests, err := inner.propose(ctx, c)
		for i := range requests {
			requests[i].Spec = spec
		}
		return requests, err
	}
	return &outer
}

// Bound returns the spec of a tool under the terms.
func Bound(s Spec, terms ...Terms) Spec {
	for _, t := range terms {
		if !content.Matches(t.Tool, s.Name) {
			continue
		}
		if t.Effects != nil {
			s.Effects = *t.Effects
		}
		if t.Exclusive != nil {
			s.Exclusive = *t.Exclusive
		}
		s.Timeout = tighter(s.Timeout, t.Timeout)
		s.MaxOutput = tighter(s.MaxOutput, t.MaxOutput)
		return s
	}
	return s
}

// Declared returns what a tool declares about itself, without terms.
func Declared(t Tool) Spec {
	if c, ok := t.(*compiled); ok {
		return c.declared
	}
	return t.Spec()
}

// tighter returns the smaller of two limits. Zero is no limit.
func tighter[N int | time.Duration](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
