package registry

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/turnlog/turnlog/model"
)

// Setup is what a provider needs to open a model.
type Setup struct {
	Ref    Ref
	Data   []byte // see [Data]; may be nil
	Shared bool   // the name is from a session, see OpenShared

	provider Provider
	registry *Registry
}

// file returns the path of the file in the name.
func (s Setup) file() string {
	if name := s.Ref.Model; s.registry.folder == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.registry.folder, s.Ref.Model)
}

// MissingError is returned if the environment of this process lacks what a provider
// needs. Another process may have it.
type MissingError struct {
	Provider  string
	Variables []string // any one is enough
	Hint      string   // what else helps, if anything
}

// Error names the variables.
func (e *MissingError) Error() string {
	text := strings.Join(e.Variables, " or ") + " is not set in the environment of this process"
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Elsewhere reports that another process may be able to open the model.
func (e *MissingError) Elsewhere() bool { return true }

// Getenv returns an environment variable.
func (s Setup) Getenv(name string) string { return s.registry.getenv(name) }

// Key returns the provider's key. It returns a *MissingError if there is none, unless a
// server at the base URL may not need one.
func (s Setup) Key(base string) (string, error) {
	if key := s.registry.key(s.provider); key != "" {
		return s.Getenv(key), nil
	}
	if base != "" && s.provider.Foreign {
		return "", nil
	}
	missing := &MissingError{Provider: s.provider.Name, Variables: s.provider.Keys}
	switch {
	case s.provider.Foreign:
		missing.Hint = "set it, or set the address of a server that needs no key as " + s.provider.Address
	case base != "":
		missing.Hint = "the server at " + shown(base) + " gets a key, too; if it accepts any, use any text"
	}
	return "", missing
}

// BaseURL returns the base URL from the name or the environment, or "" for the
// provider's own.
func (s Setup) BaseURL() (string, error) {
	base, given := s.Ref.Option("base_url")
	if !given {
		return s.Getenv(s.provider.Address), nil
	}
	if s.Shared {
		return "", fmt.Errorf("option base_url: a session cannot choose where keys are sent: set %s on the node", s.provider.Address)
	}
	if base == "" {
		return "", errors.New("option base_url: give a URL")
	}
	return base, nil
}

// Open opens a model that this one contains.
func (s Setup) Open(name string, data []byte) (model.Model, error) {
	return s.registry.open(name, data, s.Shared)
}
