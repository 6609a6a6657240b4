package agentfile

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/policy/notes"
	"github.com/turnlog/turnlog/policy/workspace"
	"github.com/turnlog/turnlog/tool/mcp"
	"github.com/turnlog/turnlog/tool/skill"
)

// Purpose returns the description of the agent for models that may delegate to it.
func (d *Definition) Purpose() string {
	return cmp.Or(d.Description, "Delegates work to the agent "+d.Name+".")
}

// Servers returns the MCP servers of the agents, each once. It returns an error if two
// agents use one name for different servers.
func Servers(of ...*Definition) ([]mcp.Server, error) {
	var all []mcp.Server
	known := make(map[string]Server)
	for _, d := range of {
		for _, name := range slices.Sorted(maps.Keys(d.MCP)) {
			s := d.MCP[name]
			other, twice := known[name]
			switch {
			case twice && !reflect.DeepEqual(s, other):
				return nil, fmt.Errorf("agent %s: another agent has a different MCP server %s: rename one", d.Name, name)
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

// which returns which AGENTS.md files the agent reads; "": none.
func (d *Definition) which() workspace.Which {
	if d.Context == nil || d.Context.AgentsMD == "none" {
		return ""
	}
	return workspace.Which(d.Context.AgentsMD)
}

// Instructions returns the AGENTS.md files for a folder, if the agent reads them. They
// follow the prompt at the beginning of a transcript.
func (d *Definition) Instructions(root string) ([]content.Item, error) {
	if d.which() == "" {
		return nil, nil
	}
	items, err := workspace.AgentsMD(root, d.which())
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	return items, nil
}

// Sources returns what planning a task in a folder recalls: its AGENTS.md files and
// matching specifications.
func (d *Definition) Sources(root string) []notes.Source {
	var all []notes.Source
	if d.which() != "" {
		all = append(all, workspace.Instructions{Folder: root, Which: d.which()})
	}
	if d.Context != nil && len(d.Context.Specs) > 0 {
		all = append(all, workspace.Specs{Root: root, Folders: d.Context.Specs})
	}
	return all
}

// Skills returns the skills in the folders below root that the agents name; nil: they
// name none.
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

// Missing describes each reference in the definition that matches no tool on offer. It checks entries
// of tools that do not deny, servers and agents.
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
			all = append(all, fmt.Sprintf("agents[%d]: no tool on offer delegates to %s", i, name))
		}
	}
	return all
}
