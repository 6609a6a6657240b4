package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/mcp"
)

// agentSet is the agents of a folder when the worker started.
type agentSet struct {
	all       []*agentfile.Definition
	delegates []*agentfile.Definition // of any of them
	servers   []mcp.Server
}

// loadAgents reads the agents of a folder, if there is one.
func loadAgents(ctx context.Context, folder string) (s agentSet, err error) {
	if folder == "" {
		return s, nil
	}
	f := agentfile.Folder(folder)
	known := agentfile.Known{Tools: toolset.CheckPattern, Beside: true, Held: true} // only nodes know models
	if s.all, err = known.List(f); err != nil {
		return s, err
	}
	if s.delegates, err = agentfile.Delegates(ctx, f.Find, s.all...); err != nil {
		return s, err
	}
	s.servers, err = agentfile.Servers(s.all...)
	return s, err
}

// roles returns the roles of the worker. A worker that delegates to agents also opens
// their sessions and forwards people's decisions about them.
func (s agentSet) roles() []admin.Role {
	if len(s.delegates) == 0 {
		return []admin.Role{admin.RoleWorker}
	}
	return []admin.Role{admin.RoleWorker, admin.RoleClient, admin.RoleApprover}
}

// sources returns the tools of the agents besides those of MCP servers.
func (s agentSet) sources(root string, cell *cli.Cell, log *zap.Logger) ([]tool.Source, error) {
	caller, err := client.Open(cell.Conn, cell.Namespace(), client.WithLogger(log), client.WithName("tool-worker"))
	if err != nil {
		return nil, err
	}
	return toolset.AgentSources(root, s.all, s.delegates, func(d *agentfile.Definition) (tool.Tool, error) {
		ref, err := d.Ref()
		if err != nil {
			return nil, err
		}
		return caller.Tool(agentfile.ToolOf(d.Name), d.Purpose(), client.Options{Config: events.Config{Agent: ref}})
	})
}
