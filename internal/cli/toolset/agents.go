package toolset

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/tool"
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

// AgentSources returns the tools of agents besides those of MCP servers: their skills,
// and the delegation to other agents. Its errors are usage errors.
func AgentSources(root string, agents, delegates []*agentfile.Definition, delegation func(*agentfile.Definition) (tool.Tool, error)) ([]tool.Source, error) {
	var out []tool.Source
	skills, err := agentfile.Skills(root, agents...)
	if err != nil {
		return nil, err
	}
	if skills != nil {
		out = append(out, skills)
	}
	if len(delegates) == 0 {
		return out, nil
	}
	tools, err := agentfile.Delegations(delegation, delegates...)
	if err != nil {
		return nil, err
	}
	return append(out, tools), nil
}
