package registry

import (
	"fmt"
	"net/url"
	"strings"
)

// Ref is a parsed model name.
type Ref struct {
	Provider string
	Model    string // may be empty
	Options  []Option
}

// Option is one setting in a model name.
type Option struct {
	Key   string
	Value string
}

// Option returns the value of an option and reports whether it is given.
func (r Ref) Option(key string) (string, bool) {
	for _, o := range r.Options {
		if o.Key == key {
			return o.Value, true
		}
	}
	return "", false
}

// String returns the name.
func (r Ref) String() string {
	s := r.Provider
	if r.Model != "" {
		s += ":" + r.Model
	}
	if len(r.Options) == 0 {
		return s
	}
	pairs := make([]string, len(r.Options))
	for i, o := range r.Options {
		pairs[i] = url.QueryEscape(o.Key) + "=" + url.QueryEscape(o.Value)
	}
	return s + "?" + strings.Join(pairs, "&")
}

// ParseRef parses provider:model?option=value&option=value. The provider is required,
// and so is the value of each option. An option may be given once. Keys and values
// are escaped as in URLs.
func ParseRef(name string) (Ref, error) {
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
		o, err := parseOption(pair)
		if err != nil {
			return Ref{}, fmt.Errorf("model %q: %w", name, err)
		}
		if _, twice := r.Option(o.Key); twice {
			return Ref{}, fmt.Errorf("model %q: option %q is given twice", name, o.Key)
		}
		r.Options = append(r.Options, o)
	}
	return r, nil
}

func parseOption(pair string) (Option, error) {
	key, value, ok := strings.Cut(pair, "=")
	if !ok || key == "" {
		return Option{}, fmt.Errorf("option %q: write option=value", pair)
	}
	k, err := url.QueryUnescape(key)
	if err != nil {
		return Option{}, fmt.Errorf("option %q: %w", pair, err)
	}
	v, err := url.QueryUnescape(value)
	if err != nil {
		return Option{}, fmt.Errorf("option %q: %w", pair, err)
	}
	return Option{Key: k, Value: v}, nil
}
