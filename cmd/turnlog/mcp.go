package main

import (
	"context"

	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/tool/mcp"
)

// awaitServers waits until the MCP servers are there, and tells of those that are not: nothing
// else depends on them. It returns an error if somebody interrupts.
func (a *app) awaitServers(ctx context.Context, servers *mcp.Manager) error {
	if len(servers.Sources()) == 0 {
		return nil
	}
	return a.interruptible(ctx, func(ctx context.Context) error {
		soon, cancel := context.WithTimeout(ctx, a.patience.servers)
		defer cancel()
		for _, s := range servers.Settle(soon) {
			if s.State == mcp.Connecting {
				a.hint("waiting for MCP server %s", s.Server)
			}
		}
		for _, err := range toolset.Missing(ctx, servers) {
			a.complain(err)
		}
		return context.Cause(ctx)
	})
}
