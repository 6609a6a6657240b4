package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// toolTimeout is how long a sub-agent has for its answer, without the waits for
// people, unless its tool's options say otherwise.
const toolTimeout = time.Hour

// metaTool is where a sub-agent's session says whose call it is.
const metaTool = "delegated_by"

// Tool returns a tool with which the model of a session hands work to another session of
// the deployment, as [session.NewTool] describes it; child says how that one starts. A
// worker offers the tool. The call has an hour, unless [tool.WithSpec] sets another timeout.
// While a question of the child is open in the calling session, the call holds no worker.
// The driver of the calling session passes the end of a call on, so it does not depend on a
// worker.
//
// The session has the limits of child's configuration, and may use no more requests, tool
// calls, tokens and money than the calling turn has left when the call is made. A running
// call holds a slot of its worker, so there have to be more slots than sub-agents that work at
// once: Waiters in the worker's configuration.
func (c *Client) Tool(name, description string, child Options, opts ...tool.Option) (tool.Tool, error) {
	switch {
	case child.ID != "" || child.Parent != "" || len(child.Input) > 0:
		return nil, fmt.Errorf("tool %s: a sub-agent's ID, Parent and Input come from its call", name)
	case child.Stepped:
		return nil, fmt.Errorf("tool %s: a sub-agent is not stepped", name)
	case child.Config.Model == "" && child.Config.Agent == nil:
		return nil, fmt.Errorf("tool %s: Config.Model or Config.Agent is required", name)
	}
	child.Metadata = child.Metadata.With(metaTool, name)
	opts = append([]tool.Option{tool.WithSpec(func(s *tool.Spec) {
		s.Effects, s.Timeout = content.Idempotent, toolTimeout
	})}, opts...)
	return session.NewTool(name, description, func(ctx context.Context, call tool.Call, prompt string) (*session.Session, error) {
		return c.joinChild(ctx, child, call, prompt)
	}, opts...)
}

// joinChild starts the call's session, or attaches to it.
func (c *Client) joinChild(ctx context.Context, o Options, call tool.Call, prompt string) (*session.Session, error) {
	o.ID, o.Parent, o.Input = engine.ChildID(call.Session, call.Place), call.Session, []content.Item{content.UserText(prompt)}
	if _, err := content.ParseSessionID(string(o.ID)); err != nil {
		return nil, fmt.Errorf("too deep a nesting of sub-agents: %w", err)
	}
	s, err := c.Attach(ctx, o.ID)
	if !errors.Is(err, session.ErrNotFound) {
		return s, err
	}
	if o.Config.SessionLimits, err = c.within(ctx, o.Config.SessionLimits, call.Session); err != nil {
		return nil, err
	}
	s, err = c.Start(ctx, o)
	if errors.Is(err, session.ErrInvalidState) { // an earlier attempt's command was first
		return c.Attach(ctx, o.ID)
	}
	return s, err
}

// within is what a sub-agent's session may use: what it is configured for, and no more
// than the calling turn has left. A caller outside of the deployment sets no bounds.
func (c *Client) within(ctx context.Context, own events.Limits, caller content.SessionID) (events.Limits, error) {
	state, _, err := c.Read(ctx, caller)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return own, nil
	case err != nil:
		return own, err
	}
	return own.And(loop.Remaining(state)), nil
}
