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

// crew is the agents of a folder when the worker started.
type crew struct {
	all     []*agentfile.Definition
	others  []*agentfile.Definition // those that some of them delegate to
	servers []mcp.Server
}

// gather reads the agents of a folder, if there is one.
func gather(ctx context.Context, folder string) (c crew, err error) {
	if folder == "" {
		return c, nil
	}
	f := agentfile.Folder(folder)
	known := agentfile.Known{Tools: toolset.CheckPattern, Beside: true, Held: true} // only nodes know models
	if c.all, err = known.List(f); err != nil {
		return c, err
	}
	if c.others, err = agentfile.Delegates(ctx, f.Find, c.all...); err != nil {
		return c, err
	}
	c.servers, err = agentfile.Servers(c.all...)
	return c, err
}

// roles returns the roles of the worker. One that delegates to agents opens their sessions
// and forwards the decisions of people about them.
func (c crew) roles() []admin.Role {
	if len(c.others) == 0 {
		return []admin.Role{admin.RoleWorker}
	}
	return []admin.Role{admin.RoleWorker, admin.RoleClient, admin.RoleApprover}
}

// sources returns the tools of the agents besides those of MCP servers.
func (c crew) sources(root string, cell *cli.Cell, log *zap.Logger) ([]tool.Source, error) {
	var out []tool.Source
	skills, err := agentfile.Skills(root, c.all...)
	if err != nil {
		return nil, err
	}
	if skills != nil {
		out = append(out, skills)
	}
	if len(c.others) == 0 {
		return out, nil
	}
	caller, err := client.Open(cell.Conn, cell.Namespace(), client.WithLogger(log), client.WithName("tool-worker"))
	if err != nil {
		return nil, err
	}
	tools, err := agentfile.Delegations(func(d *agentfile.Definition) (tool.Tool, error) {
		ref, err := d.Ref()
		if err != nil {
			return nil, err
		}
		return caller.Tool(agentfile.ToolOf(d.Name), d.Purpose(), client.Options{Config: events.Config{Agent: ref}})
	}, c.others...)
	if err != nil {
		return nil, err
	}
	return append(out, tools), nil
}
