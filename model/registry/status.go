package registry

import (
	"net/url"
	"strings"
)

// ModelVariable names the variable that holds the name of the model to use when none
// is named.
const ModelVariable = "TURNLOG_MODEL"

// Status says whether the models of a provider can be opened.
type Status struct {
	Provider string   `json:"provider"`
	Usage    string   `json:"usage"`
	Options  []string `json:"options,omitempty"`
	Ready    bool     `json:"ready"`
	Key      string   `json:"key,omitempty"`      // the variable that holds the key
	Missing  []string `json:"missing,omitempty"`  // one of these would make it ready
	Address  string   `json:"address,omitempty"`  // the variable that makes it ready without a key, by a server that wants none
	BaseURL  string   `json:"base_url,omitempty"` // if the environment gives one; without user and query
	Default  string   `json:"default,omitempty"`  // the name that counts for this provider if none is named
}

// Status says of each provider whether its models can be opened.
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

// Default returns the name of the model to use when none is named, and the variable
// that says so: [ModelVariable], or else the key of the first provider that has one
// and a model that counts. Both are empty if the environment says nothing.
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

// key is the variable that holds the provider's key; "" if none does.
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

// shown is an address without what may be secret in it.
func shown(base string) string {
	if base == "" {
		return ""
	}
	u, err := url.Parse(base)
	if err != nil {
		return "(not an address)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// secrets are the keys that the environment holds.
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
