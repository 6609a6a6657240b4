// Package registry finds the model that a name on a command line means.
//
// The one idea: a name is data, provider:model?option=value, and [Providers]
// returns all that a binary knows as a slice to read; a binary that knows more
// appends to it and calls [OpenFrom]. Nothing registers itself.
//
// A name has at most one '?', so a model whose own name has one cannot be named.
package registry

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/demo"
	"github.com/turnlog/turnlog/model/scripted"
)

// Provider makes models of one kind.
type Provider struct {
	Name    string   // the part of a model's name before the colon
	Usage   string   // how a name is written, for people
	Options []string // the options that it knows

	// Open makes the model. Data is what came along with the name, such as the
	// content of a script; nil if nothing did.
	Open func(ref Ref, data []byte) (model.Model, error)
}

// Ref is a model's name taken apart.
type Ref struct {
	Provider string
	Model    string // empty: none given
	Options  []Option
}

// Option is one setting in a model's name.
type Option struct {
	Key   string
	Value string
}

// Option returns the value of the option, and whether it was given.
func (r Ref) Option(key string) (string, bool) {
	for _, o := range r.Options {
		if o.Key == key {
			return o.Value, true
		}
	}
	return "", false
}

// String puts the name together again.
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

// ParseRef takes provider:model?option=value&option=value apart. It returns an
// error if there is no provider, and for an option without a value or given
// twice. Keys and values are escaped as in URLs.
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

// Providers returns the providers that come with Turnlog.
func Providers() []Provider {
	return []Provider{
		{Name: "demo", Usage: "demo", Open: openDemo},
		{Name: "scripted", Usage: "scripted:FILE", Open: openScript},
	}
}

// Open makes the model that the name means, out of [Providers]. Data is the
// content of the script that scripted:FILE names; if it is nil, the file is
// read.
func Open(name string, data []byte) (model.Model, error) {
	return OpenFrom(Providers(), name, data)
}

// OpenFrom makes the model that the name means, out of the given providers. It
// returns an error for a name that ParseRef refuses, an unknown provider, an
// option that the provider does not know, and for what the provider refuses.
func OpenFrom(providers []Provider, name string, data []byte) (model.Model, error) {
	if name == "" {
		return nil, fmt.Errorf("no model is named: use %s", usage(providers))
	}
	ref, err := ParseRef(name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(providers, func(p Provider) bool { return p.Name == ref.Provider })
	if i < 0 {
		return nil, fmt.Errorf("model %q: unknown provider %q: use %s", name, ref.Provider, usage(providers))
	}
	p := providers[i]
	for _, o := range ref.Options {
		if !slices.Contains(p.Options, o.Key) {
			return nil, fmt.Errorf("model %q: unknown option %q: %s has %s", name, o.Key, p.Name, options(p))
		}
	}
	m, err := p.Open(ref, data)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", strings.TrimSuffix(name, ":"), err)
	}
	return m, nil
}

// usage lists how models are named: "a, b or c".
func usage(providers []Provider) string {
	words := make([]string, len(providers))
	for i, p := range providers {
		words[i] = p.Usage
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func options(p Provider) string {
	if len(p.Options) == 0 {
		return "none"
	}
	return strings.Join(p.Options, ", ")
}

// Data returns what must travel with the model's name so that [Open] makes the
// same model elsewhere: a script's content, or nil.
func Data(m model.Model) []byte {
	if s, ok := m.(interface{ Source() []byte }); ok {
		return s.Source()
	}
	return nil
}

func openDemo(ref Ref, data []byte) (model.Model, error) {
	if ref.Model != "" {
		return nil, fmt.Errorf("there is one demo model: write demo, without %q", ref.Model)
	}
	if data != nil {
		return nil, fmt.Errorf("the demo model takes no data, but %d bytes came along", len(data))
	}
	return demo.New(), nil
}

func openScript(ref Ref, data []byte) (model.Model, error) {
	if ref.Model == "" {
		return nil, fmt.Errorf("which script? write %s:FILE", ref.Provider)
	}
	m, err := parseOrLoad(ref.Model, data)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func parseOrLoad(file string, data []byte) (*scripted.Model, error) {
	if data != nil {
		return scripted.Parse(file, data)
	}
	return scripted.Load(file)
}
