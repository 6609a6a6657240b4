package registry

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Ref is a parsed model name.
type Ref struct {
	Provider string
	Model    string     // may be empty
	Options  url.Values // each with one value
}

// Option returns the value of an option and reports whether it is given.
func (r Ref) Option(key string) (string, bool) { return r.Options.Get(key), r.Options.Has(key) }

// String returns the name.
func (r Ref) String() string {
	s := r.Provider
	if r.Model != "" {
		s += ":" + r.Model
	}
	if len(r.Options) > 0 {
		s += "?" + r.Options.Encode()
	}
	return s
}

// bare returns the name without options.
func (r Ref) bare() string { return Ref{Provider: r.Provider, Model: r.Model}.String() }

// keys returns the keys of the options, sorted.
func (r Ref) keys() []string { return slices.Sorted(maps.Keys(r.Options)) }

// parseRef parses provider:model?option=value&option=value. The provider is required,
// and so is the value of each option. An option may be given once. Keys and values
// are escaped as in URLs.
func parseRef(name string) (Ref, error) {
	base, query, hasQuery := strings.Cut(name, "?")
	var r Ref
	r.Provider, r.Model, _ = strings.Cut(base, ":")
	if r.Provider == "" {
		return Ref{}, fmt.Errorf("model %q: no provider: write provider or provider:model", name)
	}
	if !hasQuery {
		return r, nil
	}
	for pair := range strings.SplitSeq(query, "&") {
		if key, _, ok := strings.Cut(pair, "="); !ok || key == "" {
			return Ref{}, fmt.Errorf("model %q: option %q: write option=value", name, pair)
		}
	}
	var err error
	if r.Options, err = url.ParseQuery(query); err != nil {
		return Ref{}, fmt.Errorf("model %q: options: %w", name, err)
	}
	for _, key := range r.keys() {
		if len(r.Options[key]) > 1 {
			return Ref{}, fmt.Errorf("model %q: option %q is given twice", name, key)
		}
	}
	return r, nil
}
