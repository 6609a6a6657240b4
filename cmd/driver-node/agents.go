package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/turnlog/turnlog/agentfile"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/model/registry"
)

// checkAgents looks whether the folder is there. What is wrong with a file in it is told
// to whoever names its agent.
func (f flags) checkAgents() error {
	if f.agents == "" {
		return nil
	}
	if _, err := os.ReadDir(f.agents); err != nil {
		return cli.Usage("--agents: %w", err)
	}
	return nil
}

// agents makes the agents of a folder, if there is one, and those that are published.
func agents(folder string, cell *jetstream.Cell, known *registry.Registry) agentfile.Host {
	published := func(ctx context.Context, name, version string) (*agentfile.Definition, error) {
		a, err := cell.Agents().Get(ctx, name, version)
		if errors.Is(err, jetstream.ErrNoAgent) {
			return nil, fmt.Errorf("agent %q: %w: it is not published", name, agentfile.ErrUnknown)
		}
		if err != nil {
			return nil, err
		}
		return agentfile.Parse(name, a.Data, nil)
	}
	find := published
	if folder != "" {
		find = func(ctx context.Context, name, version string) (*agentfile.Definition, error) {
			d, err := agentfile.Folder(folder).Find(ctx, name, version)
			if errors.Is(err, agentfile.ErrUnknown) {
				return published(ctx, name, version)
			}
			return d, err
		}
	}
	return agentfile.Host{Find: find, Models: known.OpenShared, Notes: cell.Memory()}
}
