package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/turnlog/turnlog/content"
)

// Source offers tools. Its tools may change between model calls.
type Source interface {
	// Name names the source in the journal.
	Name() string
	// Tools lists the tools on offer now, sorted by name.
	Tools(ctx context.Context) ([]Tool, error)
}

// Collision says which source wins if two offer a tool of the same name, for models and for calls.
type Collision int

// The collision policies.
const (
	FirstWins Collision = iota
	LastWins
	ErrorOnCollision // nothing is offered: sampling fails with a *CollisionError
)

// CollisionError is returned when two tools have the same name and the policy does not allow it.
type CollisionError struct {
	Tool          string
	First, Second string // the sources, in order
}

// Error names the tool and both sources.
func (e *CollisionError) Error() string {
	return fmt.Sprintf("tool %q is offered twice: by source %s and by source %s", e.Tool, e.First, e.Second)
}

// Registry is a source whose owner adds and removes the tools. It is safe for
// concurrent use.
type Registry struct {
	name string

	mu    sync.Mutex
	tools []Tool // sorted by name; replaced, never modified
}

// NewRegistry returns a registry with the tools. It returns an error if a name is
// empty, too long, not a token or used twice, or if a schema is invalid.
func NewRegistry(name string, tools ...Tool) (*Registry, error) {
	r := &Registry{name: name}
	for _, t := range tools {
		if err := checkName(t.Spec().Name); err != nil {
			return nil, fmt.Errorf("registry %s: %w", name, err)
		}
		if _, dup := find(r.tools, t.Spec().Name); dup {
			return nil, fmt.Errorf("registry %s: tool %q is registered twice", name, t.Spec().Name)
		}
		t, err := Compile(t)
		if err != nil {
			return nil, fmt.Errorf("registry %s: %w", name, err)
		}
		r.Add(t)
	}
	return r, nil
}

// Name returns the registry's name.
func (r *Registry) Name() string { return r.name }

// Tools lists the registered tools, sorted by name.
func (r *Registry) Tools(context.Context) ([]Tool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tools, nil
}

// Add registers t, compiled, and replaces a tool of the same name. If the schema is
// invalid, every call of the tool fails with that error.
func (r *Registry) Add(t Tool) {
	t, _ = Compile(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	tools := slices.Clone(r.tools)
	i, found := find(tools, t.Spec().Name)
	if found {
		tools[i] = t
	} else {
		tools = slices.Insert(tools, i, t)
	}
	r.tools = tools
}

// Remove removes the named tool and reports whether it was registered.
func (r *Registry) Remove(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, found := find(r.tools, name)
	if found {
		r.tools = slices.Delete(slices.Clone(r.tools), i, i+1)
	}
	return found
}

// Lookup returns the tool with that name.
func (r *Registry) Lookup(name string) (Tool, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, found := find(r.tools, name)
	if !found {
		return nil, false
	}
	return r.tools[i], true
}

// derived is a source whose tools are made from another source's.
type derived struct {
	Source
	derive func([]Tool) ([]Tool, error)
}

// Tools derives the tools from what the source offers now.
func (d derived) Tools(ctx context.Context) ([]Tool, error) {
	tools, err := d.Source.Tools(ctx)
	if err != nil {
		return nil, err
	}
	return d.derive(tools)
}

func find(tools []Tool, name string) (int, bool) {
	return slices.BinarySearchFunc(tools, name, func(t Tool, n string) int { return strings.Compare(t.Spec().Name, n) })
}

func checkName(name string) error {
	if len(name) > 64 || !content.IsToken(name) {
		return fmt.Errorf("tool name %q: use 1 to 64 letters, digits, '-' or '_'", name)
	}
	return nil
}
