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

// toolTimeout is how long a sub-agent has to answer unless its tool's options set another limit. Waits for
// people do not count.
const toolTimeout = time.Hour

// metaTool is the key of metadata in a sub-agent's session that says which tool's call it works for.
const metaTool = "delegated_by"

// Tool returns a tool with which the model of a session delegates work to another session of the deployment,
// as [session.NewTool] describes; child says how that session starts. A worker offers the tool. A call has an
// hour, unless [tool.WithSpec] sets another timeout. While a question of the child is open in the calling
// session, the call does not occupy the worker. The driver of the calling session passes on the end of a
// call, so that does not depend on a worker.
//
// The child has the limits of its configuration. It may also use no more requests, tool calls, tokens and
// money than the calling turn has left when the call is made. A running call holds a slot of its worker, so a
// worker needs more slots than sub-agents that work at once: see Waiters in its configuration.
func (c *Client) Tool(name, description string, child Options, opts ...tool.Option) (tool.Tool, error) {
	switch {
	case child.ID != "" || child.Parent != "" || len(child.Input) > 0:
		return nil, fmt.Errorf("tool %s: a sub-agent's ID, Parent and Input come from its call", name)
	case child.Stepped:
		return nil, fmt.Errorf("tool %s: a sub-agent cannot be stepped", name)
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
		return nil, fmt.Errorf("sub-agents nest too deeply: %w", err)
	}
	s, err := c.attachChild(ctx, o)
	if !errors.Is(err, session.ErrNotFound) {
		return s, err
	}
	if o.Config.SessionLimits, err = c.within(ctx, o.Config.SessionLimits, call.Session); err != nil {
		return nil, err
	}
	s, err = c.Start(ctx, o)
	if errors.Is(err, session.ErrInvalidState) { // an earlier attempt opened the session
		return c.attachChild(ctx, o)
	}
	return s, err
}

// attachChild is Attach to a session that works for its parent. Another session with that name would answer
// calls that are not its own.
func (c *Client) attachChild(ctx context.Context, o Options) (*session.Session, error) {
	r, err := c.read(ctx, o.ID)
	if err == nil && r.State.Opened && r.State.Parent != o.Parent {
		err = fmt.Errorf("session %s is not a sub-agent of %s, which needs its name: start the parent under another name", o.ID, o.Parent)
	}
	if err != nil {
		return nil, err
	}
	return c.attachRead(ctx, r)
}

// within returns what a sub-agent's session may use: the limits of its configuration, and no more than the
// calling turn has left. A caller outside the deployment sets no limits.
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
