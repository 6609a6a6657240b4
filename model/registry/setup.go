package registry

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/model"
)

// Setup is what a provider makes a model of.
type Setup struct {
	Ref    Ref
	Data   []byte // what came along with the name; nil if nothing did
	Shared bool   // the name came with a session; see OpenShared

	provider Provider
	registry *Registry
}

// file is where the file is that the name names.
func (s Setup) file() string {
	if name := s.Ref.Model; s.registry.folder == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.registry.folder, s.Ref.Model)
}

// MissingError is returned when the environment of this process lacks what a provider
// needs. Another process may have it.
type MissingError struct {
	Provider  string
	Variables []string // any one of them would do
	Hint      string   // what else would do; "": nothing
}

// Error names the variables.
func (e *MissingError) Error() string {
	text := strings.Join(e.Variables, " or ") + " is not set in the environment of this process"
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Elsewhere says that a model which cannot be opened here may be opened by another
// process.
func (e *MissingError) Elsewhere() bool { return true }

// Getenv returns a variable of the environment.
func (s Setup) Getenv(name string) string { return s.registry.getenv(name) }

// Key returns the provider's key. Without one it returns a *MissingError, unless the
// address is one that may want none.
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
		missing.Hint = "set it, or the address of a server that wants no key as " + s.provider.Address
	case base != "":
		missing.Hint = "also at the address " + shown(base) + " a key is sent; if the server there takes any, any text will do"
	}
	return "", missing
}

// BaseURL returns the address that the name or the environment gives; "": the
// provider's own.
func (s Setup) BaseURL() (string, error) {
	base, given := s.Ref.Option("base_url")
	if !given {
		return s.Getenv(s.provider.Address), nil
	}
	if s.Shared {
		return "", fmt.Errorf("option base_url: a session does not say where keys are sent: set %s where it is driven", s.provider.Address)
	}
	if base == "" {
		return "", errors.New("option base_url: give an address")
	}
	return base, nil
}

// Open makes a model that this one is made of.
func (s Setup) Open(name string, data []byte) (model.Model, error) {
	return s.registry.open(name, data, s.Shared)
}

// text is an option, or "".
func (s Setup) text(key string) string {
	v, _ := s.Ref.Option(key)
	return v
}

// numbers reads options that are numbers, and keeps the first error.
type numbers struct {
	setup Setup
	err   error
}

func (n *numbers) wrong(key, value, want string) {
	if n.err == nil {
		n.err = fmt.Errorf("option %s=%s: want %s", key, value, want)
	}
}

// int64 is a whole number; 0 if it is not given.
func (n *numbers) int64(key string) int64 {
	value, given := n.setup.Ref.Option(key)
	if !given {
		return 0
	}
	i, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		n.wrong(key, value, "a whole number")
	}
	return i
}

func (n *numbers) int(key string) int { return int(n.int64(key)) }

// float is a number; nil if it is not given.
func (n *numbers) float(key string) *float64 {
	value, given := n.setup.Ref.Option(key)
	if !given {
		return nil
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil {
		n.wrong(key, value, "a number")
	}
	return &f
}

// bool is true or false; otherwise if it is not given.
func (n *numbers) bool(key string, otherwise bool) bool {
	value, given := n.setup.Ref.Option(key)
	if !given {
		return otherwise
	}
	b, err := strconv.ParseBool(value)
	if err != nil {
		n.wrong(key, value, "true or false")
	}
	return b
}
