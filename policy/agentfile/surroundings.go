package agentfile

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/policy/memory"
	"github.com/turnlog/turnlog/policy/workspace"
	"github.com/turnlog/turnlog/tool/mcp"
	"github.com/turnlog/turnlog/tool/skill"
)

// Purpose is what the agent is for, for models that may delegate to it.
func (d *Definition) Purpose() string {
	return cmp.Or(d.Description, "Hands work to the agent "+d.Name+".")
}

// Servers are the MCP servers of the agents, each once. It returns an error if two agents
// give one name to different servers.
func Servers(of ...*Definition) ([]mcp.Server, error) {
	var all []mcp.Server
	known := make(map[string]Server)
	for _, d := range of {
		for _, name := range slices.Sorted(maps.Keys(d.MCP)) {
			s := d.MCP[name]
			other, twice := known[name]
			switch {
			case twice && !reflect.DeepEqual(s, other):
				return nil, fmt.Errorf("agent %s: its MCP server %s is not that of another agent: give it another name", d.Name, name)
			case twice:
				continue
			}
			known[name] = s
			all = append(all, mcp.Server{
				Name: name, Command: s.Command, Env: s.Env, URL: s.URL, Headers: s.Headers, Token: s.Token, Timeout: span(s.Timeout),
				IgnoreHints: s.IgnoreHints,
			})
		}
	}
	return all, nil
}

// Which says which AGENTS.md files the agent is told of; empty: none.
func (d *Definition) Which() workspace.Which {
	if d.Context == nil || d.Context.AgentsMD == none {
		return ""
	}
	return workspace.Which(d.Context.AgentsMD)
}

// Instructions are the AGENTS.md files that hold for a folder, if the agent is told of
// them: what a transcript begins with behind the prompt.
func (d *Definition) Instructions(root string) ([]content.Item, error) {
	if d.Which() == "" {
		return nil, nil
	}
	items, err := workspace.AgentsMD(root, d.Which())
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	return items, nil
}

// Sources are what planning a task in a folder is told of: its AGENTS.md files and the
// specifications that fit.
func (d *Definition) Sources(root string) []memory.Source {
	var all []memory.Source
	if d.Which() != "" {
		all = append(all, workspace.Instructions{Folder: root, Which: d.Which()})
	}
	if d.Context != nil && len(d.Context.Specs) > 0 {
		all = append(all, workspace.Specs{Root: root, Folders: d.Context.Specs})
	}
	return all
}

// Skills are the skills in the folders that the agents name, in a root; nil: they name
// none.
func Skills(root string, of ...*Definition) (*skill.Source, error) {
	var folders []string
	for _, d := range of {
		if d.Context == nil {
			continue
		}
		for _, f := range d.Context.Skills {
			if !slices.Contains(folders, f) {
				folders = append(folders, f)
			}
		}
	}
	if len(folders) == 0 {
		return nil, nil //nolint:nilnil // there are none
	}
	s, err := skill.New(root, folders...)
	if err != nil {
		return nil, fmt.Errorf("agent files: %w", err)
	}
	return s, nil
}

// Missing says in words what the file names and nobody offers, given the names of the tools
// on offer: entries of tools that fit none, unless they deny, servers without a tool, and
// agents to delegate to.
func (d *Definition) Missing(offered []string) []string {
	var all []string
	fits := func(pattern string) bool {
		return slices.ContainsFunc(offered, func(name string) bool { return content.Matches(pattern, name) })
	}
	for i, t := range d.Tools {
		if events.Action(t.Permission) != events.RuleDeny && !fits(t.Name) {
			all = append(all, fmt.Sprintf("tools[%d]: no tool on offer is called %s", i, t.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.MCP)) {
		if !fits("mcp_" + name + "_*") {
			all = append(all, fmt.Sprintf("mcp.%s: no tool of this server is on offer", name))
		}
	}
	for i, name := range d.Agents {
		if !fits(ToolOf(name)) {
			all = append(all, fmt.Sprintf("agents[%d]: nobody offers to delegate to %s", i, name))
		}
	}
	return all
}
