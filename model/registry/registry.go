// Package registry opens models by name.
//
// A name is data: provider:model?option=value. Everything else comes from an
// environment that the caller passes in. [Providers] returns the providers of
// Turnlog's binaries; a program can pass more to [New]. Nothing registers itself. The
// name of a model cannot contain '?'.
//
// To open a name from an untrusted source, as a node does, call
// [Registry.OpenShared]: the name cannot open local files and cannot send this
// process's keys to an address of its choice.
package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/internal/nearest"
	"github.com/turnlog/turnlog/model"
)

// Provider opens models of one kind.
type Provider struct {
	Name    string   // the prefix of model names
	Usage   string   // the form of names, for people
	Options []string // the supported options

	Keys    []string // variables for the key, the first one set counts; none: no key is needed
	Address string   // variable for the base URL
	Default string   // the default model if there is a key
	Foreign bool     // the server at a base URL may belong to another provider, with other models and perhaps no key

	// Open opens a model.
	Open func(s Setup) (model.Model, error)
}

// Registry opens models by name.
type Registry struct {
	providers []Provider
	getenv    func(string) string
	prices    func() (Prices, error)
	folder    string // base of relative files; "": the working directory
}

// New returns a registry of [Providers] and more. A nil getenv is an empty environment.
func New(getenv func(string) string, more ...Provider) *Registry {
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	return &Registry{providers: append(Providers(), more...), getenv: getenv, prices: pricesIn(getenv)}
}

// In returns a registry that resolves relative files in names against a folder.
func (r *Registry) In(folder string) *Registry {
	in := *r
	in.folder = folder
	return &in
}

// Without returns a registry in which every model of a provider is refused with a reason.
func (r *Registry) Without(provider, reason string) *Registry {
	without := *r
	without.providers = slices.Clone(r.providers)
	for i, p := range without.providers {
		if p.Name == provider {
			without.providers[i].Open = func(Setup) (model.Model, error) { return nil, errors.New(reason) }
		}
	}
	return &without
}

// Open opens the model with the name. Data is the result of [Data] for it; if nil, Open
// reads the file in the name.
//
// Open returns a *[MissingError] if the environment lacks what the provider needs, and
// other errors for a malformed name, an unknown provider or option, and invalid
// values.
func (r *Registry) Open(name string, data []byte) (model.Model, error) {
	return r.open(name, data, false)
}

// OpenShared is Open for a name from a session. It rejects names that would read or
// write local files or choose the address to which a key is sent.
func (r *Registry) OpenShared(name string, data []byte) (model.Model, error) {
	return r.open(name, data, true)
}

// Usable returns an error if no node could open a session's model of that name, whatever its environment has.
func (r *Registry) Usable(name string) error {
	_, err := r.OpenShared(name, nil)
	if _, missing := errors.AsType[*MissingError](err); missing {
		return nil
	}
	return err
}

// Check returns an error if a name is invalid in every environment: it is malformed, its
// provider or an option is unknown, a value is invalid, or a file is missing. It calls
// no provider.
func (r *Registry) Check(name string) error {
	with := *r
	with.getenv = r.withKeys
	_, err := with.Open(name, nil)
	return err
}

// withKeys is the environment with every key set and no base URL.
func (r *Registry) withKeys(variable string) string {
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
		return Ref{}, Provider{}, fmt.Errorf("no model: use %s", r.usage())
	}
	ref, err := parseRef(name)
	if err != nil {
		return Ref{}, Provider{}, err
	}
	i := slices.IndexFunc(r.providers, func(p Provider) bool { return p.Name == ref.Provider })
	if i < 0 {
		return Ref{}, Provider{}, fmt.Errorf("model %q: unknown provider %q%s", name, ref.Provider, cmp.Or(r.hint(ref), ": use "+r.usage()))
	}
	p := r.providers[i]
	for _, key := range ref.keys() {
		if !slices.Contains(p.Options, key) {
			known := cmp.Or(strings.Join(p.Options, ", "), "none")
			hint := cmp.Or(nearest.Hint(key, p.Options), fmt.Sprintf(": %s has %s", p.Name, known))
			return Ref{}, Provider{}, fmt.Errorf("model %q: unknown option %q%s", name, key, hint)
		}
	}
	return ref, p, nil
}

// hint suggests a provider for an unknown one: one with a similar name, or one whose
// models have such names.
func (r *Registry) hint(ref Ref) string {
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

// usage lists the forms of names: "a, b or c".
func (r *Registry) usage() string {
	words := make([]string, len(r.providers))
	for i, p := range r.providers {
		words[i] = p.Usage
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Data returns the data that another process needs besides the name to open the same model: the
// content of scripts and cassettes, or nil.
func Data(m model.Model) []byte {
	switch m := m.(type) {
	case interface{ Source() []byte }:
		return m.Source()
	case interface{ Models() []model.Model }:
		return bundle(m.Models())
	}
	return nil
}

// bundle returns the data of several models, or nil if none has any.
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
		return nil // impossible for bytes
	}
	return raw
}

func unbundle(data []byte, n int) ([][]byte, error) {
	all := make([][]byte, n)
	if data == nil {
		return all, nil
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("the models' data: %w", err)
	}
	if len(all) != n {
		return nil, fmt.Errorf("the data is for %d models, want %d", len(all), n)
	}
	return all, nil
}
