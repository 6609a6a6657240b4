package registry

import (
	"cmp"
	"net/url"
	"strings"
)

// ModelVariable is the environment variable for the name of the default model.
const ModelVariable = "TURNLOG_MODEL"

// Demo is the name of the offline model, which is used if nothing names another one.
const Demo = "demo"

// Status says whether the models of a provider can be opened.
type Status struct {
	Provider string   `json:"provider"`
	Usage    string   `json:"usage"`
	Options  []string `json:"options,omitempty"`
	Ready    bool     `json:"ready"`
	Key      string   `json:"key,omitempty"`      // the variable that is set
	Missing  []string `json:"missing,omitempty"`  // any one of these variables is enough
	Address  string   `json:"address,omitempty"`  // variable for a server that needs no key
	BaseURL  string   `json:"base_url,omitempty"` // from the environment, without user and query
	Default  string   `json:"default,omitempty"`  // the name of the default model
}

// Status returns the status of each provider.
func (r *Registry) Status() []Status {
	all := make([]Status, 0, len(r.providers))
	for _, p := range r.providers {
		s := Status{Provider: p.Name, Usage: p.Usage, Options: p.Options, Key: r.key(p)}
		base := r.address(p)
		s.BaseURL = shown(base)
		s.Ready = len(p.Keys) == 0 || s.Key != "" || base != "" && p.Foreign
		if !s.Ready {
			s.Missing = p.Keys
			if p.Foreign {
				s.Address = p.Address
			}
		}
		if s.Key != "" && p.Default != "" && (base == "" || !p.Foreign) {
			s.Default = p.Name + ":" + p.Default
		}
		all = append(all, s)
	}
	return all
}

// Default returns the name of the default model and the variable that determines it:
// [ModelVariable], or else the key of the first provider with a key and a default
// model. Both are empty if there is none.
func (r *Registry) Default() (name, variable string) {
	if name := r.getenv(ModelVariable); name != "" {
		return name, ModelVariable
	}
	for _, s := range r.Status() {
		if s.Default != "" {
			return s.Default, s.Key
		}
	}
	return "", ""
}

// DefaultName returns the name of the default model, or of the offline model.
func (r *Registry) DefaultName() string {
	name, _ := r.Default()
	return cmp.Or(name, Demo)
}

// key returns the variable that contains the provider's key, or "".
func (r *Registry) key(p Provider) string {
	for _, v := range p.Keys {
		if r.getenv(v) != "" {
			return v
		}
	}
	return ""
}

func (r *Registry) address(p Provider) string {
	if p.Address == "" {
		return ""
	}
	return r.getenv(p.Address)
}

// shown returns a URL without its potential secrets.
func shown(base string) string {
	if base == "" {
		return ""
	}
	u, err := url.Parse(base)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// secrets returns all keys in the environment.
func (r *Registry) secrets() []string {
	var all []string
	for _, p := range r.providers {
		for _, v := range p.Keys {
			if key := strings.TrimSpace(r.getenv(v)); key != "" {
				all = append(all, key)
			}
		}
	}
	return all
}
