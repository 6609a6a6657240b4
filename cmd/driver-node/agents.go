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

// host makes the agents of the folder, if there is one, and those that are published.
func (f flags) host(cell *jetstream.Cell, known *registry.Registry) agentfile.Host {
	h := agentfile.Host{Find: published(cell), Models: known.OpenShared, Notes: cell.Memory(), Commands: f.hooks, Folder: f.agents}
	if f.agents == "" {
		return h
	}
	folder := agentfile.Folder(f.agents)
	h.Find = func(ctx context.Context, name, version string) (*agentfile.Definition, error) {
		d, err := folder.Find(ctx, name, version)
		if errors.Is(err, agentfile.ErrUnknown) {
			return published(cell)(ctx, name, version)
		}
		return d, err
	}
	h.Own = func(ctx context.Context, name, version string) bool {
		_, err := folder.Find(ctx, name, version)
		return err == nil
	}
	return h
}

// published finds agents in the bucket of a deployment.
func published(cell *jetstream.Cell) agentfile.FindFunc {
	return func(ctx context.Context, name, version string) (*agentfile.Definition, error) {
		a, err := cell.Agents().Get(ctx, name, version)
		if errors.Is(err, jetstream.ErrNoAgent) {
			return nil, fmt.Errorf("agent %q: %w: it is not published", name, agentfile.ErrUnknown)
		}
		if err != nil {
			return nil, err
		}
		return agentfile.Parse(name, a.Data, nil)
	}
}
