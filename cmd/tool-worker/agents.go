package main

import (
	"context"

	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/policy/agentfile"
)

// loadAgents reads the agents of a folder, if there is one.
func loadAgents(ctx context.Context, folder string) (a toolset.Agents, err error) {
	if folder == "" {
		return a, nil
	}
	f := agentfile.Folder{Path: folder, Known: agentfile.Known{Tools: toolset.CheckPattern, SameFolder: true, Held: true}} // only nodes know models
	if a.All, err = f.List(); err != nil {
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
