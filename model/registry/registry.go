// Package registry finds the model that a name on a command line means.
//
// The one idea: a name is data, provider:model?option=value, and what it needs beside
// that comes from an environment which is passed in. [Providers] returns all that our
// binaries know as a slice to read; a program that knows more gives its own to [New].
// Nothing registers itself.
//
// A name has at most one '?', so a model whose own name has one cannot be named.
//
// Who opens a model by a name that somebody else wrote, as a node does, calls
// [Registry.OpenShared]: such a name opens no file here and sends no key of this
// process to an address of its choice.
package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/internal/nearest"
	"github.com/turnlog/turnlog/model"
)

// Provider makes models of one kind.
type Provider struct {
	Name    string   // the part of a model's name before the colon
	Usage   string   // how a name is written, for people
	Options []string // the options that it knows

	Keys    []string // variables that may hold the key, the first that is set counts; none: it needs none
	Address string   // variable that may hold a base URL
	Default string   // the model that counts if none is named and there is a key
	Foreign bool     // a base URL may be another company's, which has other models and may want no key

	// Open makes the model.
	Open func(s Setup) (model.Model, error)
}

// Registry opens models by their names.
type Registry struct {
	providers []Provider
	getenv    func(string) string
	folder    string // where names look for files; "": where the process is
}

// New returns a registry of [Providers] and more. The environment is what getenv
// returns; nil is an empty one.
func New(getenv func(string) string, more ...Provider) *Registry {
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	return &Registry{providers: append(Providers(), more...), getenv: getenv}
}

// In returns the registry for names that were written down in a folder: files that they
// name are relative to that.
func (r *Registry) In(folder string) *Registry {
	in := *r
	in.folder = folder
	return &in
}

// Providers returns the providers that the registry knows.
func (r *Registry) Providers() []Provider { return slices.Clone(r.providers) }

// Open makes the model that the name means. Data is what [Data] returned for it
// elsewhere; if it is nil, the file is read that the name names.
//
// It returns an error for a name that ParseRef refuses, an unknown provider, an
// option that the provider does not know, a *[MissingError] if the environment lacks
// what the provider needs, and what the provider refuses.
func (r *Registry) Open(name string, data []byte) (model.Model, error) {
	return r.open(name, data, false)
}

// OpenShared is Open for a name that came with a session. It refuses a name that
// would read or write a file of this machine, or that says to which address a key is
// sent.
func (r *Registry) OpenShared(name string, data []byte) (model.Model, error) {
	return r.open(name, data, true)
}

// Check returns an error if a name can mean no model, whatever keys the environment has:
// its form is wrong, nobody knows its provider or one of its options, an option has a value
// that cannot be, or a file that it names is not there. Nothing is called.
func (r *Registry) Check(name string) error {
	with := *r
	with.getenv = r.pretended
	_, err := with.Open(name, nil)
	return err
}

// pretended is an environment in which every key is set and no address.
func (r *Registry) pretended(variable string) string {
	for _, p := range r.providers {
		switch {
		case slices.Contains(p.Keys, variable):
			return "key"
		case p.Address == variable:
			return ""
		}
	}
	return r.getenv(variable)
}

func (r *Registry) find(name string) (Ref, Provider, error) {
	if name == "" {
		return Ref{}, Provider{}, fmt.Errorf("no model is named: use %s", r.usage())
	}
	ref, err := ParseRef(name)
	if err != nil {
		return Ref{}, Provider{}, err
	}
	i := slices.IndexFunc(r.providers, func(p Provider) bool { return p.Name == ref.Provider })
	if i < 0 {
		return Ref{}, Provider{}, fmt.Errorf("model %q: unknown provider %q%s", name, ref.Provider, cmp.Or(r.meant(ref), ": use "+r.usage()))
	}
	p := r.providers[i]
	for _, o := range ref.Options {
		if !slices.Contains(p.Options, o.Key) {
			hint := cmp.Or(nearest.Hint(o.Key, p.Options), fmt.Sprintf(": %s has %s", p.Name, options(p)))
			return Ref{}, Provider{}, fmt.Errorf("model %q: unknown option %q%s", name, o.Key, hint)
		}
	}
	return ref, p, nil
}

// meant suggests the provider of a name whose own nobody knows: one that is a slip away, or
// one that makes models of such names.
func (r *Registry) meant(ref Ref) string {
	var names []string
	for _, p := range r.providers {
		names = append(names, p.Name)
		family, _, _ := strings.Cut(p.Default, "-")
		if family != "" && strings.HasPrefix(ref.Provider, family+"-") {
			return ": did you mean " + Ref{Provider: p.Name, Model: ref.String()}.String() + "?"
		}
	}
	return nearest.Hint(ref.Provider, names)
}

func (r *Registry) open(name string, data []byte, shared bool) (model.Model, error) {
	ref, p, err := r.find(name)
	if err != nil {
		return nil, err
	}
	m, err := p.Open(Setup{Ref: ref, Data: data, Shared: shared, provider: p, registry: r})
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", strings.TrimSuffix(name, ":"), err)
	}
	return m, nil
}

// usage lists how models are named: "a, b or c".
func (r *Registry) usage() string {
	words := make([]string, len(r.providers))
	for i, p := range r.providers {
		words[i] = p.Usage
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

// Data returns what must travel with the model's name so that a registry makes the
// same model elsewhere: a script's or a cassette's content, those of a fallback's
// models together, or nil.
func Data(m model.Model) []byte {
	switch m := m.(type) {
	case interface{ Source() []byte }:
		return m.Source()
	case interface{ Models() []model.Model }:
		return bundle(m.Models())
	}
	return nil
}

// bundle is the data of several models; nil if none has any.
func bundle(models []model.Model) []byte {
	all := make([][]byte, len(models))
	some := false
	for i, m := range models {
		all[i] = Data(m)
		some = some || all[i] != nil
	}
	if !some {
		return nil
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil // bytes can always be written
	}
	return raw
}

// unbundle returns the data of n models.
func unbundle(data []byte, n int) ([][]byte, error) {
	all := make([][]byte, n)
	if data == nil {
		return all, nil
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("the models' data: %w", err)
	}
	if len(all) != n {
		return nil, fmt.Errorf("the models' data is of %d models, not of %d", len(all), n)
	}
	return all, nil
}
