package tool

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Terms are what a host says of tools in place of what they say of themselves. It
// answers for that: a tool that is declared to only read runs unasked where rules guard,
// and is run again when its worker is lost.
type Terms struct {
	Tool      string           `json:"tool"`                 // a tool's name, in which * stands for any characters
	Effects   *content.Effects `json:"effects,omitempty"`    // nil: as the tool declares
	Exclusive *bool            `json:"exclusive,omitempty"`  // as above; a tool that bears one call at a time gets no more
	Timeout   time.Duration    `json:"timeout,omitempty"`    // of a call, unless the tool's own is shorter; zero: the tool's own
	MaxOutput int              `json:"max_output,omitempty"` // as above, in bytes of output
}

// Under returns s with the terms in force. The first that fits a tool counts for it.
func Under(s Source, terms ...Terms) Source {
	if len(terms) == 0 {
		return s
	}
	u := &under{terms: append([]Terms(nil), terms...), known: make(map[string]otherSpec)}
	return derived{s, u.tools}
}

// Declared is what a tool says of itself, whatever terms it is under.
func Declared(t Tool) Spec {
	for {
		switch outer := t.(type) {
		case *bound:
			t = outer.inner
		case *wrapped:
			t = outer.Tool
		default:
			return t.Spec()
		}
	}
}

// under puts tools under terms. Sources are asked at every model call, so it remembers
// what it computed.
type under struct {
	terms []Terms

	mu    sync.Mutex
	known map[string]otherSpec // by name
}

func (u *under) tools(tools []Tool) ([]Tool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make([]Tool, len(tools))
	for i, t := range tools {
		out[i] = u.tool(t)
	}
	return out, nil
}

// Bound returns the spec of a tool under the terms.
func Bound(s Spec, terms ...Terms) Spec {
	u := under{terms: terms}
	return u.apply(s)
}

func (u *under) tool(t Tool) Tool {
	spec := t.Spec()
	k, ok := u.known[spec.Name]
	if !ok || !reflect.DeepEqual(k.inner, spec) {
		k = otherSpec{inner: spec}
		if other := u.apply(spec); !reflect.DeepEqual(other, spec) {
			c := check(other)
			k.outer = &c
		}
		u.known[spec.Name] = k
	}
	if k.outer == nil {
		return t
	}
	inner, _ := Compile(t) // a tool that cannot be called says so when it is
	return &bound{checked: k.outer, inner: inner}
}

// apply returns the spec under the first terms that fit.
func (u *under) apply(s Spec) Spec {
	for _, t := range u.terms {
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

// tighter is the smaller of two bounds; zero is none.
func tighter[N int | time.Duration](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// bound is a tool under terms.
type bound struct {
	*checked
	inner Tool
}

// Call runs the tool.
func (b *bound) Call(ctx context.Context, c Call) (Output, error) { return b.inner.Call(ctx, c) }

// door is the tool's own, if it has one: it bears no more calls for being told to.
func (b *bound) door() chan struct{} {
	if own := b.inner.(compiler).door(); own != nil { // every compiled tool is one
		return own
	}
	return b.single
}

// Propose asks the tool.
func (b *bound) Propose(ctx context.Context, c Call) ([]Request, error) {
	return b.inner.(Proposer).Propose(ctx, c) // every compiled tool is one
}
