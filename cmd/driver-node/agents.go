package main

import (
	"context"
	"errors"
	"os"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/memory"
	"github.com/turnlog/turnlog/model/registry"
	"github.com/turnlog/turnlog/policy/agentfile"
)

// checkAgents checks that the folder exists. Problems with a file in it are logged when the
// node starts, and returned to sessions that name its agent.
func (f flags) checkAgents() error {
	if f.agents == "" {
		return nil
	}
	if _, err := os.ReadDir(f.agents); err != nil {
		return cli.Usage("--agents: %w", err)
	}
	return nil
}

// knownAgents returns what this program knows about agents whose files are in a folder.
// Workers offer their delegates.
func knownAgents(dir string, known *registry.Registry) agentfile.Known {
	return agentfile.Known{Models: known.In(dir).Check, Tools: toolset.CheckPattern, Held: true}
}

// logAgents logs the problems with files of the folder.
func (f flags) logAgents(known *registry.Registry, log *zap.Logger) {
	if f.agents == "" {
		return
	}
	_, err := agentfile.Folder{Path: f.agents, Known: knownAgents(f.agents, known)}.List()
	problems, bad := errors.AsType[agentfile.Problems](err)
	if err != nil && !bad {
		log.Warn("agent files cannot be read", zap.Error(err))
	}
	for _, p := range problems {
		log.Warn("agent file cannot be used", zap.String("file", p.File), zap.Int("line", p.Line), zap.Int("column", p.Column), zap.String("problem", p.Error()))
	}
}

// host returns the agents of the folder, if there is one, and the published ones.
func (f flags) host(cell *jetstream.Cell, known *registry.Registry) agentfile.Host {
	h := agentfile.Host{
		Find: toolset.Published(cell), Models: known.OpenShared, Model: known.DefaultName(), Notes: memory.Of(cell), Commands: f.hooks, Folder: f.agents,
	}
	if f.agents == "" {
		return h
	}
	find := agentfile.Folder{Path: f.agents, Known: knownAgents(f.agents, known)}.Find
	h.Find = func(ctx context.Context, name, version string) (*agentfile.Definition, error) {
		d, err := find(ctx, name, version)
		if errors.Is(err, agentfile.ErrUnknown) {
			return toolset.Published(cell)(ctx, name, version)
		}
		return d, err
	}
	h.Own = func(ctx context.Context, name, version string) bool {
		_, err := find(ctx, name, version)
		return err == nil
	}
	h.Data = func(name string) ([]byte, error) {
		m, err := known.In(f.agents).Open(name, nil)
		if _, missing := errors.AsType[*registry.MissingError](err); missing {
			return nil, nil // another node may have the key
		}
		if err != nil {
			return nil, err
		}
		return registry.Data(m), nil
	}
	return h
}
