package main

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/tool"
)

// ToolUse is what becomes of calls of a tool in sessions of an agent.
type ToolUse struct {
	Permission events.Action `json:"permission"` // of the call as such: allow or ask
	Route      string        `json:"route"`
	Exclusive  bool          `json:"exclusive,omitempty"`
	Timeout    string        `json:"timeout,omitempty"`
	MaxOutput  int           `json:"max_output,omitempty"`
}

// toolsAgent is the agent by which tools are listed.
type toolsAgent struct {
	definition *agentfile.Definition
	config     events.Config
}

// newToolsAgent reads what sessions of the agent use.
func newToolsAgent(d *agentfile.Definition) (*toolsAgent, error) {
	c, err := d.Session()
	if err != nil {
		return nil, err
	}
	return &toolsAgent{d, c}, nil
}

// agentFor is the agent of the flag; nil: none is named. The cell is nil for one that has to
// be a file.
func (f *toolsFlags) agentFor(ctx context.Context, a *app, cell *jetstream.Cell) (*toolsAgent, error) {
	var d *agentfile.Definition
	var err error
	switch {
	case f.agent == "":
		return nil, nil //nolint:nilnil // none is named
	case agentfile.IsFile(f.agent):
		if d, err = a.loadAgent(f.agent); err != nil {
			return nil, err
		}
	case cell == nil:
		return nil, usageError("--agent %s: in this process name a file, such as %s.yaml", f.agent, f.agent)
	default:
		d, err = published(cell)(ctx, f.agent, "")
		if errors.Is(err, agentfile.ErrUnknown) {
			return nil, usageError("--agent: %w: name the file of one that only nodes have", err)
		}
		if err != nil {
			return nil, err
		}
	}
	return newToolsAgent(d)
}

// use is what becomes of a tool, under the agent's terms already; false: the agent is not
// offered it.
func (a *toolsAgent) use(s tool.Spec) (*ToolUse, bool) {
	if a == nil {
		return nil, true
	}
	if !engine.Offered(a.config.Tools, s) {
		return nil, false
	}
	u := &ToolUse{Permission: events.RuleGuard, Route: routeWord(s.Route, s.DetachAfter), Exclusive: s.Exclusive, MaxOutput: s.MaxOutput}
	fits := func(pattern string) bool { return content.Matches(pattern, s.Name) }
	if i := slices.IndexFunc(a.config.Rules, func(r events.Rule) bool { return fits(r.Tool) }); i >= 0 {
		u.Permission = a.config.Rules[i].Action
	}
	if u.Permission == events.RuleGuard {
		u.Permission = events.RuleAsk
		if s.Effects == content.ReadOnly {
			u.Permission = events.RuleAllow
		}
	}
	if i := slices.IndexFunc(a.config.Routes, func(r events.RouteRule) bool { return fits(r.Tool) }); i >= 0 {
		u.Route = routeWord(a.config.Routes[i].Route, a.config.Routes[i].DetachAfter)
	}
	if s.Timeout > 0 {
		u.Timeout = s.Timeout.String()
	}
	return u, true
}

func routeWord(r content.Route, after time.Duration) string {
	if r == content.DetachSoon {
		return string(r) + ":" + after.String()
	}
	return cmp.Or(string(r), "foreground")
}

// under are sources as sessions of the agent see them.
func (a *toolsAgent) under(sources []tool.Source) []tool.Source {
	if a == nil {
		return sources
	}
	out := make([]tool.Source, len(sources))
	for i, s := range sources {
		out[i] = tool.Under(s, a.definition.Terms()...)
	}
	return out
}

// bound is what a worker offers as sessions of the agent see it.
func (a *toolsAgent) bound(s tool.Spec) tool.Spec {
	if a == nil {
		return s
	}
	return tool.Bound(s, a.definition.Terms()...)
}

// prepare adds the MCP servers of the agent to those of the flags.
func (a *toolsAgent) prepare(f *toolsFlags) error {
	if a == nil {
		return nil
	}
	servers, err := agentfile.Servers(a.definition)
	if err != nil {
		return usageError("%w", err)
	}
	f.tools.AddServers(servers...)
	return nil
}

// own are the tools that the agent brings in this process beside those of its servers.
func (a *toolsAgent) own(ctx context.Context, f *toolsFlags) ([]tool.Source, error) {
	if a == nil {
		return nil, nil
	}
	var out []tool.Source
	skills, err := agentfile.Skills(f.tools.Root, a.definition)
	if err != nil {
		return nil, usageError("%w", err)
	}
	if skills != nil {
		out = append(out, skills)
	}
	others := make([]*agentfile.Definition, len(a.definition.Agents))
	for i, name := range a.definition.Agents {
		if others[i], err = agentfile.Folder(filepath.Dir(f.agent)).Find(ctx, name, ""); err != nil {
			return nil, usageError("agent %s delegates: %w", a.definition.Name, err)
		}
	}
	delegations, err := agentfile.Delegations(lookedAt, others...)
	if err != nil {
		return nil, err
	}
	return append(out, delegations), nil
}

// lookedAt is the tool with which others delegate to an agent, to be looked at.
func lookedAt(d *agentfile.Definition) (tool.Tool, error) {
	return tool.Func(agentfile.ToolOf(d.Name), d.Purpose(), func(context.Context, agent.Delegation) (string, error) {
		return "", errors.New("this agent is only looked at")
	}, tool.Idempotent())
}

// missing tells what the agent's file names and nobody offers.
func (a *app) missing(d *agentfile.Definition, offered []string) {
	for _, what := range d.Missing(offered) {
		a.hint("agent %s: %s", d.Name, what)
	}
}

// missing is that of the agent by which tools are listed, if there is one.
func (a *toolsAgent) missing(of *app, offered []string) {
	if a != nil {
		of.missing(a.definition, offered)
	}
}
