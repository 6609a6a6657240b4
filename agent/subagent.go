package agent

import (
	"context"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// Tool returns a tool with which the model of another agent delegates work to this one, as
// [session.NewTool] describes. The sessions are in this agent's journal. They have the limits of
// this agent, and may use no more requests, tool calls, tokens and money than the calling turn has
// left when the call is made. They may do only what this agent's policy allows the caller.
func (a *Agent) Tool(name, description string, opts ...tool.Option) (tool.Tool, error) {
	opts = append([]tool.Option{tool.Idempotent()}, opts...)
	return session.NewTool(name, description, func(ctx context.Context, c tool.Call, _ string) (*session.Session, error) {
		caller, _ := c.Caller.(session.Parent)
		return a.start(ctx, SessionConfig{ID: engine.ChildID(c.Session, c.Place), Parent: c.Session}, caller)
	}, opts...)
}
