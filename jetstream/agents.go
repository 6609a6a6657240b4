package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
)

// ErrNoAgent is returned for an agent, or a version of one, that nobody has
// published. Agents.List says which there are.
var ErrNoAgent = errors.New("no such agent")

// Agents holds the definitions of agents by name and version. A version never
// changes; which one is the newest does. It is safe for concurrent use.
type Agents struct {
	cell *Cell
}

// Agents returns the cell's definitions.
func (c *Cell) Agents() *Agents { return &Agents{cell: c} }

// Agent is one version of a definition.
type Agent struct {
	Name      string
	Version   string
	Data      []byte    // the definition, as it was published
	Published time.Time // when this version became the newest
}

// Publish makes the definition the newest version of its agent. To publish what is
// the newest already changes nothing.
func (a *Agents) Publish(ctx context.Context, name, version string, data []byte) error {
	if !content.IsToken(name) || !content.IsToken(version) {
		return fmt.Errorf("publish agent: %w: %q, version %q", content.ErrBadID, name, version)
	}
	if newest, err := a.newest(ctx, name); err == nil && string(newest.Data) == version {
		return nil
	}
	bucket := a.cell.names.agentsBucket()
	err := a.cell.keyPut(ctx, bucket, name+"."+version, data, 0)
	if err == nil {
		err = a.cell.keyPut(ctx, bucket, name, []byte(version), 0)
	}
	if err != nil {
		return fmt.Errorf("publish agent %s: %w", name, err)
	}
	return nil
}

// Get returns a version of an agent; "": the newest. It returns ErrNoAgent if there is
// none.
func (a *Agents) Get(ctx context.Context, name, version string) (Agent, error) {
	if !content.IsToken(name) || version != "" && !content.IsToken(version) {
		return Agent{}, fmt.Errorf("agent %q: %w", name, ErrNoAgent)
	}
	out := Agent{Name: name, Version: version}
	newest, err := a.newest(ctx, name)
	if err != nil && (version == "" || !errors.Is(err, errNoMessage)) {
		return Agent{}, fmt.Errorf("agent %s: %w", name, noAgent(err))
	}
	if version == "" || version == string(newest.Data) {
		out.Version, out.Published = string(newest.Data), newest.Time
	}
	s, err := a.cell.keyStored(ctx, a.cell.names.agentsBucket(), name+"."+out.Version)
	if err != nil {
		return Agent{}, fmt.Errorf("agent %s, version %s: %w", name, out.Version, noAgent(err))
	}
	if out.Published.IsZero() {
		out.Published = s.Time
	}
	out.Data = s.Data
	return out, nil
}

// List returns the newest version of every agent, by name.
func (a *Agents) List(ctx context.Context) ([]Agent, error) {
	keys, err := a.cell.keys(ctx, a.cell.names.agentsBucket(), "*")
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	var out []Agent
	for _, name := range keys {
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

// Versions lists the versions of an agent that are kept, by version.
func (a *Agents) Versions(ctx context.Context, name string) ([]string, error) {
	if !content.IsToken(name) {
		return nil, fmt.Errorf("agent %q: %w", name, ErrNoAgent)
	}
	keys, err := a.cell.keys(ctx, a.cell.names.agentsBucket(), name+".*")
	if err != nil {
		return nil, fmt.Errorf("versions of agent %s: %w", name, err)
	}
	for i, k := range keys {
		keys[i] = strings.TrimPrefix(k, name+".")
	}
	return keys, nil
}

// Withdraw takes an agent away: no new session can begin with it by name. Its versions
// stay, for whoever asks for one of them by name and version.
func (a *Agents) Withdraw(ctx context.Context, name string) error {
	if !content.IsToken(name) {
		return fmt.Errorf("withdraw agent %q: %w", name, ErrNoAgent)
	}
	if _, err := a.newest(ctx, name); err != nil {
		return fmt.Errorf("withdraw agent %s: %w", name, noAgent(err))
	}
	if err := a.cell.keyDelete(ctx, a.cell.names.agentsBucket(), name, 0); err != nil {
		return fmt.Errorf("withdraw agent %s: %w", name, err)
	}
	return nil
}

// newest is the key that names the newest version of an agent. Its name is a token.
func (a *Agents) newest(ctx context.Context, name string) (stored, error) {
	return a.cell.keyStored(ctx, a.cell.names.agentsBucket(), name)
}

func noAgent(err error) error {
	if errors.Is(err, errNoMessage) {
		return ErrNoAgent
	}
	return err
}
