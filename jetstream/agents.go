package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
)

// ErrNoAgent is returned for an agent, or a version of one, that is not published. Agents.List
// says which ones are.
var ErrNoAgent = errors.New("no such agent")

// Agents holds the definitions of agents by name and version. A version never changes; which
// one is the newest does. It is safe for concurrent use.
type Agents struct {
	bucket bucket[[]byte] // versions under name.version, and under the name which one is the newest
}

// Agents returns the cell's agent definitions.
func (c *Cell) Agents() *Agents { return &Agents{byteBucket(c, c.names.Agents(), 0)} }

// Agent is one version of a definition.
type Agent struct {
	Name      string
	Version   string
	Data      []byte    // the definition, as it was published
	Published time.Time // when this version became the newest
}

// Publish makes a definition the newest version of its agent. Publishing the newest version
// again has no effect.
func (a *Agents) Publish(ctx context.Context, name, version string, data []byte) error {
	if !content.IsToken(name) || !content.IsToken(version) {
		return fmt.Errorf("publish agent: %w: %q, version %q", content.ErrBadID, name, version)
	}
	if newest, ok, err := a.bucket.get(ctx, name); err == nil && ok && string(newest.Value) == version {
		return nil
	}
	_, err := a.bucket.put(ctx, name+"."+version, data)
	if err == nil {
		_, err = a.bucket.put(ctx, name, []byte(version))
	}
	if err != nil {
		return fmt.Errorf("publish agent %s: %w", name, err)
	}
	return nil
}

// Get returns a version of an agent; "" means the newest. It returns ErrNoAgent if there is
// none.
func (a *Agents) Get(ctx context.Context, name, version string) (Agent, error) {
	if !content.IsToken(name) || version != "" && !content.IsToken(version) {
		return Agent{}, fmt.Errorf("agent %q: %w", name, ErrNoAgent)
	}
	out := Agent{Name: name, Version: version}
	newest, ok, err := a.bucket.get(ctx, name)
	if err == nil && !ok && version == "" {
		err = ErrNoAgent
	}
	if err != nil {
		return Agent{}, fmt.Errorf("agent %s: %w", name, err)
	}
	if ok && (version == "" || version == string(newest.Value)) {
		out.Version, out.Published = string(newest.Value), newest.At
	}
	it, ok, err := a.bucket.get(ctx, name+"."+out.Version)
	if err == nil && !ok {
		err = ErrNoAgent
	}
	if err != nil {
		return Agent{}, fmt.Errorf("agent %s, version %s: %w", name, out.Version, err)
	}
	if out.Published.IsZero() {
		out.Published = it.At
	}
	out.Data = it.Value
	return out, nil
}

// List returns the newest version of every agent, by name.
func (a *Agents) List(ctx context.Context) ([]Agent, error) {
	names, err := a.bucket.keys(ctx, "*")
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	var out []Agent
	for _, name := range names {
		agent, err := a.Get(ctx, name, "")
		switch {
		case errors.Is(err, ErrNoAgent):
		case err != nil:
			return nil, fmt.Errorf("list agents: %w", err)
		default:
			out = append(out, agent)
		}
	}
	return out, nil
}

// Withdraw removes an agent: no new session can start with it by name. Its versions stay and
// can be requested by name and version.
func (a *Agents) Withdraw(ctx context.Context, name string) error {
	if !content.IsToken(name) {
		return fmt.Errorf("withdraw agent %q: %w", name, ErrNoAgent)
	}
	_, ok, err := a.bucket.get(ctx, name)
	if err == nil && !ok {
		err = ErrNoAgent
	}
	if err == nil {
		err = a.bucket.delete(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("withdraw agent %s: %w", name, err)
	}
	return nil
}
