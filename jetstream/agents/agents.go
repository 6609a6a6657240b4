// Package agents keeps definitions of agents that are published in a cell.
package agents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// ErrNotPublished is returned for an agent, or a version of one, that is not published. [Store.List] lists
// the published ones.
var ErrNotPublished = errors.New("no such agent")

// Store holds the definitions of agents by name and version. A version never changes, but the
// newest one may be replaced. It is safe for concurrent use.
type Store struct {
	newest   bucket.Bucket[[]byte] // versions, by name
	versions bucket.Bucket[[]byte] // definitions, by name.version
}

// Of returns the agents of a cell.
func Of(c *jetstream.Cell) *Store {
	conn, names := api.New(c.Conn()), layout.New(c.Namespace()).Agents()
	return &Store{bucket.OfBytes(conn, "agent", names, 1), bucket.OfBytes(conn, "agent", names, 2)}
}

// Agent is one version of a definition.
type Agent struct {
	Name      string
	Version   string
	Data      []byte    // the definition as published
	Published time.Time // when this version became the newest
}

// Publish makes a definition the newest version of its agent. Publishing the newest version again
// has no effect.
func (a *Store) Publish(ctx context.Context, name, version string, data []byte) error {
	if newest, ok, err := a.newest.Get(ctx, name); err == nil && ok && string(newest.Value) == version {
		return nil
	}
	if _, err := a.versions.Put(ctx, name+"."+version, data); err != nil {
		return err
	}
	_, err := a.newest.Put(ctx, name, []byte(version))
	return err
}

// Get returns a version of an agent; "" means the newest. It returns ErrNotPublished if there is none.
func (a *Store) Get(ctx context.Context, name, version string) (Agent, error) {
	out := Agent{Name: name, Version: version}
	newest, ok, err := a.newest.Get(ctx, name)
	switch {
	case err != nil:
		return Agent{}, err
	case !ok && version == "":
		return Agent{}, fmt.Errorf("agent %q: %w", name, ErrNotPublished)
	case ok && (version == "" || version == string(newest.Value)):
		out.Version, out.Published = string(newest.Value), newest.At
	}
	it, ok, err := a.versions.Get(ctx, name+"."+out.Version)
	switch {
	case err != nil:
		return Agent{}, err
	case !ok:
		return Agent{}, fmt.Errorf("agent %q, version %q: %w", name, out.Version, ErrNotPublished)
	case out.Published.IsZero():
		out.Published = it.At
	}
	out.Data = it.Value
	return out, nil
}

// List returns the newest version of every agent, by name.
func (a *Store) List(ctx context.Context) ([]Agent, error) {
	names, err := a.newest.Keys(ctx, "*")
	if err != nil {
		return nil, err
	}
	var out []Agent
	for _, name := range names {
		agent, err := a.Get(ctx, name, "")
		switch {
		case errors.Is(err, ErrNotPublished):
		case err != nil:
			return nil, err
		default:
			out = append(out, agent)
		}
	}
	return out, nil
}

// Withdraw removes an agent's name, so that no new session can start with it by name alone. Its versions
// remain available by name and version.
func (a *Store) Withdraw(ctx context.Context, name string) error {
	_, ok, err := a.newest.Get(ctx, name)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("withdraw agent %q: %w", name, ErrNotPublished)
	}
	return a.newest.Delete(ctx, name)
}
