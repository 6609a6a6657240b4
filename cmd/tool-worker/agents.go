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
)

// loadAgents reads the agents of a folder, if there is one.
func loadAgents(ctx context.Context, folder string) (a toolset.Agents, err error) {
	if folder == "" {
		return a, nil
	}
	f := agentfile.Folder(folder)
	known := agentfile.Known{Tools: toolset.CheckPattern, Beside: true, Held: true} // only nodes know models
	if a.All, err = known.List(f); err != nil {
		return a, err
	}
	a.Delegates, err = agentfile.Delegates(ctx, f.Find, a.All...)
	return a, err
}

// rolesFor returns the roles of the worker. A worker that delegates to agents also opens
// their sessions and forwards people's decisions about them.
func rolesFor(a toolset.Agents) []admin.Role {
	if len(a.Delegates) == 0 {
		return []admin.Role{admin.RoleWorker}
	}
	return []admin.Role{admin.RoleWorker, admin.RoleClient, admin.RoleApprover}
}

// delegation returns what makes the tools that delegate to agents.
func delegation(cell *cli.Cell, log *zap.Logger) (func(*agentfile.Definition) (tool.Tool, error), error) {
	caller, err := client.Open(cell.Conn, cell.Namespace(), client.WithLogger(log), client.WithName("tool-worker"))
	if err != nil {
		return nil, err
	}
	return func(d *agentfile.Definition) (tool.Tool, error) {
		ref, err := d.Ref()
		if err != nil {
			return nil, err
		}
		return caller.Tool(agentfile.ToolOf(d.Name), d.Purpose(), client.Options{Config: events.Config{Agent: ref}})
	}, nil
}
