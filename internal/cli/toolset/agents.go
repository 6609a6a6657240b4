package toolset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/mcp"
	"github.com/turnlog/turnlog/tool/output"
)

// Published finds agents in the bucket of a deployment.
func Published(cell *jetstream.Cell) agentfile.FindFunc {
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

// Agents are the agents that a worker offers tools to, and those that they delegate to.
type Agents struct{ All, Delegates []*agentfile.Definition }

// sources returns the tools of the agents besides those of MCP servers: their skills, and
// the delegation to other agents.
func (a Agents) sources(root string, delegation func(*agentfile.Definition) (tool.Tool, error)) ([]tool.Source, error) {
	var out []tool.Source
	skills, err := agentfile.Skills(root, a.All...)
	if err != nil {
		return nil, err
	}
	if skills != nil {
		out = append(out, skills)
	}
	if len(a.Delegates) == 0 {
		return out, nil
	}
	tools, err := agentfile.Delegations(delegation, a.Delegates...)
	if err != nil {
		return nil, err
	}
	return append(out, tools), nil
}

// Tools are the open tools of a worker.
type Tools struct {
	Servers *mcp.Manager // the caller closes it

	flags   *Flags
	agents  Agents
	sources []tool.Source
}

// Start opens the tools of the flags and starts to connect to the MCP servers of the flags
// and the agents. version is sent to the servers. Its errors are usage errors.
func (f *Flags) Start(ctx context.Context, agents Agents, version string, getenv func(string) string, log *zap.Logger) (*Tools, error) {
	servers, err := agentfile.Servers(agents.All...)
	if err != nil {
		return nil, err
	}
	sources, err := f.open(servers...) //nolint:contextcheck // what it opens lives as long as this process
	if err != nil {
		return nil, err
	}
	m, err := mcp.Open(ctx, mcp.Config{Servers: f.mcp, Roots: []string{f.Root}, Getenv: getenv, Version: version, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("--mcp: %w", err)
	}
	return &Tools{Servers: m, flags: f, agents: agents, sources: sources}, nil
}

// Sources returns all tools. Long outputs go to the store if the flags ask for it;
// delegation makes the tools that delegate to agents. Its errors are usage errors.
func (t *Tools) Sources(store output.Store, delegation func(*agentfile.Definition) (tool.Tool, error)) ([]tool.Source, error) {
	own, err := t.agents.sources(t.flags.Root, delegation)
	if err != nil {
		return nil, err
	}
	return t.flags.keep(slices.Concat(t.sources, t.Servers.Sources(), own), store)
}
