package tool

import (
	"time"

	"github.com/turnlog/turnlog/content"
)

// Terms override what tools declare about themselves. The host answers for them: a
// tool that it declares read-only runs without a question and is run again when
// its worker is lost.
type Terms struct {
	Tool      string           `json:"tool"`                 // the tool's name; * matches any characters
	Effects   *content.Effects `json:"effects,omitempty"`    // nil: as the tool declares
	Exclusive *bool            `json:"exclusive,omitempty"`  // nil: likewise; an exclusive tool still runs one call at a time
	Timeout   time.Duration    `json:"timeout,omitempty"`    // of a call, unless the tool's own is shorter; zero: the tool's own
	MaxOutput int              `json:"max_output,omitempty"` // bytes of output, likewise
}

// Under returns s with its tools under the terms. The first terms that match a
// tool's name apply to it.
func Under(s Source, terms ...Terms) Source {
	if len(terms) == 0 {
		return s
	}
	terms = append([]Terms(nil), terms...)
	return derived{s, respec(func(spec Spec) (Spec, error) { return Bound(spec, terms...), nil })}
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

// Declared returns what a tool declares about itself, without terms, under the
// name that it is offered by.
func Declared(t Tool) Spec {
	if c, ok := t.(*compiled); ok {
		return c.declared
	}
	return t.Spec()
}

// tighter is the smaller of two limits. Zero is no limit.
func tighter[N int | time.Duration](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
