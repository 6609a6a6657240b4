package agents

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// ToolUse says how sessions of an agent use a tool.
type ToolUse struct {
	Permission events.Action `json:"permission"` // for the call as a whole: allow or ask
	Route      string        `json:"route"`
	Exclusive  bool          `json:"exclusive,omitempty"`
	Timeout    string        `json:"timeout,omitempty"`
	MaxOutput  int           `json:"max_output,omitempty"`
}

// loadAgent loads the agent of the flag, which must be a file if cell is nil.
func (l *lister) loadAgent(ctx context.Context, cell *jetstream.Cell) error {
	d, ref, err := flags.LoadAgent(l.app, l.file, cell == nil)
	if err == nil && d == nil && ref != nil {
		d, err = toolset.Published(cell)(ctx, ref.Name, "")
		if errors.Is(err, agentfile.ErrUnknown) {
			return cli.Usage("--agent: %w: if only nodes have its file, name the file", err)
		}
	}
	if err != nil || d == nil {
		return err
	}
	l.agent, l.terms = d, d.Terms()
	l.config, err = d.Session()
	return err
}

// use returns how sessions of the agent use a tool, or nil without an agent.
func (l *lister) use(ctx context.Context, s tool.Spec) *ToolUse {
	if l.agent == nil {
		return nil
	}
	u := &ToolUse{Permission: events.RuleAllow, Route: routeName(s.Route, s.DetachAfter), Exclusive: s.Exclusive, MaxOutput: s.MaxOutput}
	v, err := permission.Rules(l.config.Rules).Evaluate(ctx, tool.Request{Call: content.ToolCall{Name: s.Name}, Spec: s})
	switch {
	case err != nil || v.Ruling == tool.Deny:
		u.Permission = events.RuleDeny
	case v.Ruling == tool.Ask:
		u.Permission = events.RuleAsk
	}
	if i := slices.IndexFunc(l.config.Routes, func(r events.RouteRule) bool { return content.Matches(r.Tool, s.Name) }); i >= 0 {
		u.Route = routeName(l.config.Routes[i].Route, l.config.Routes[i].DetachAfter)
	}
	if s.Timeout > 0 {
		u.Timeout = s.Timeout.String()
	}
	return u
}

func routeName(r content.Route, after time.Duration) string {
	if r == content.DetachSoon {
		return string(r) + ":" + after.String()
	}
	return cmp.Or(string(r), "foreground")
}

// agents returns the agent, which must have a file, and its delegates.
func (l *lister) agents(ctx context.Context) (out toolset.Agents, err error) {
	if l.agent == nil {
		return out, nil
	}
	out.All = []*agentfile.Definition{l.agent}
	if out.Delegates, err = agentfile.Delegates(ctx, agentfile.Folder{Path: filepath.Dir(l.file)}.Find, l.agent); err != nil {
		return out, cli.Usage("%w", err)
	}
	return out, nil
}

// listedOnly returns the tool that delegates to an agent, for a list: it cannot be called.
func listedOnly(d *agentfile.Definition) (tool.Tool, error) {
	return tool.Func(agentfile.ToolOf(d.Name), d.Purpose(), func(context.Context, session.Delegation) (string, error) {
		return "", errors.New("this agent is only listed")
	}, tool.Idempotent())
}
