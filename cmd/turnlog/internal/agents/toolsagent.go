package agents

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// ToolUse says how sessions of an agent use a tool.
type ToolUse struct {
	Permission events.Action `json:"permission"` // of the call as such: allow or ask
	Route      string        `json:"route"`
	Exclusive  bool          `json:"exclusive,omitempty"`
	Timeout    string        `json:"timeout,omitempty"`
	MaxOutput  int           `json:"max_output,omitempty"`
}

// toolsAgent is the agent whose tools are listed. Nil is no agent: tools are listed as
// they are.
type toolsAgent struct {
	definition *agentfile.Definition
	config     events.Config
}

// loadAgent loads the agent of the flag, which must be a file if cell is nil.
func (l *lister) loadAgent(ctx context.Context, cell *jetstream.Cell) (*toolsAgent, error) {
	d, ref, err := flags.LoadAgent(l.app, l.file, cell == nil)
	if err == nil && d == nil && ref != nil {
		d, err = toolset.Published(cell)(ctx, ref.Name, "")
		if errors.Is(err, agentfile.ErrUnknown) {
			return nil, cli.Usage("--agent: %w: if only nodes have its file, name the file", err)
		}
	}
	if err != nil || d == nil {
		return nil, err
	}
	c, err := d.Session()
	if err != nil {
		return nil, err
	}
	return &toolsAgent{d, c}, nil
}

// use returns how sessions use a tool, and false if they are not offered it.
func (a *toolsAgent) use(s tool.Spec) (*ToolUse, bool) {
	if a == nil {
		return nil, true
	}
	if !engine.Offered(a.config.Tools, s) {
		return nil, false
	}
	u := &ToolUse{Permission: events.RuleGuard, Route: routeName(s.Route, s.DetachAfter), Exclusive: s.Exclusive, MaxOutput: s.MaxOutput}
	if i := slices.IndexFunc(a.config.Rules, func(r events.Rule) bool { return content.Matches(r.Tool, s.Name) }); i >= 0 {
		u.Permission = a.config.Rules[i].Action
	}
	if u.Permission == events.RuleGuard {
		u.Permission = events.RuleAsk
		if s.Effects == content.ReadOnly {
			u.Permission = events.RuleAllow
		}
	}
	if i := slices.IndexFunc(a.config.Routes, func(r events.RouteRule) bool { return content.Matches(r.Tool, s.Name) }); i >= 0 {
		u.Route = routeName(a.config.Routes[i].Route, a.config.Routes[i].DetachAfter)
	}
	if s.Timeout > 0 {
		u.Timeout = s.Timeout.String()
	}
	return u, true
}

func routeName(r content.Route, after time.Duration) string {
	if r == content.DetachSoon {
		return string(r) + ":" + after.String()
	}
	return cmp.Or(string(r), "foreground")
}

// terms returns what the agent changes about tools.
func (a *toolsAgent) terms() []tool.Terms {
	if a == nil {
		return nil
	}
	return a.definition.Terms()
}

// agents returns the agent of a file, and its delegates.
func (a *toolsAgent) agents(ctx context.Context, file string) (out toolset.Agents, err error) {
	if a == nil {
		return out, nil
	}
	out.All = []*agentfile.Definition{a.definition}
	for _, name := range a.definition.Agents {
		d, err := agentfile.Folder{Path: filepath.Dir(file)}.Find(ctx, name, "")
		if err != nil {
			return out, cli.Usage("agent %s delegates: %w", a.definition.Name, err)
		}
		out.Delegates = append(out.Delegates, d)
	}
	return out, nil
}

// listedOnly returns the tool that delegates to an agent, for a list: it cannot be called.
func listedOnly(d *agentfile.Definition) (tool.Tool, error) {
	return tool.Func(agentfile.ToolOf(d.Name), d.Purpose(), func(context.Context, session.Delegation) (string, error) {
		return "", errors.New("this agent is only listed")
	}, tool.Idempotent())
}

func (a *toolsAgent) hintMissing(to *app.App, offered []string) {
	if a != nil {
		flags.HintMissing(to, a.definition, offered)
	}
}
