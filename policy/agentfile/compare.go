package agentfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/internal/nearest"
)

// compare checks references within the file, and references to models, tools and agents.
func (r *reader) compare(d *Definition) {
	for i, t := range d.Tools {
		r.pattern(at("$.tools", i)+".name", t.Name, d)
	}
	r.models(d)
	if r.known.SameFolder && r.folder != "" && len(d.Agents) > 0 {
		r.delegates(d)
	}
	if data, err := d.Encode(); r.known.Held && err == nil && len(data) > MaxData {
		r.report("", "a definition of %d bytes, with the files that it includes: at most %d fit into a session", len(data), MaxData)
	}
}

// pattern reports an entry of tools that matches none, as far as the file and the
// program know.
func (r *reader) pattern(path, pattern string, d *Definition) {
	name, agent := strings.CutPrefix(pattern, ToolOf(""))
	server, mcp := strings.CutPrefix(pattern, "mcp_")
	switch {
	case agent && !strings.Contains(name, "*"):
		if !slices.Contains(d.Agents, name) {
			r.report(path, "%q: the agent does not delegate to %s: name it under agents%s", pattern, name, nearest.Hint(name, d.Agents))
		}
	case mcp:
		server, _, _ = strings.Cut(server, "*")
		known := slices.Sorted(maps.Keys(d.MCP))
		of := func(name string) bool {
			return strings.HasPrefix(server+"_", name+"_") || strings.HasPrefix(name, server)
		}
		if slices.ContainsFunc(known, of) {
			return
		}
		server, _, _ = strings.Cut(server, "_")
		if hint := nearest.Hint(server, known); hint != "" {
			r.report(path, "%q: no server under mcp is called %s%s", pattern, server, hint)
		}
	case r.known.Tools != nil:
		if err := r.known.Tools(pattern); err != nil {
			r.report(path, "%v", err)
		}
	}
}

func (r *reader) models(d *Definition) {
	check := func(path, name string) {
		if name == "" || r.known.Models == nil {
			return
		}
		if err := r.known.Models(name); err != nil {
			r.report(path, "%v", err)
		}
	}
	check("$.model", d.Model)
	for i, name := range d.Fallback {
		check(at("$.fallback", i), name)
	}
	if d.Compaction == nil {
		return
	}
	for i, s := range d.Compaction.Steps {
		if s.Summarise != nil {
			check(at("$.compaction.steps", i)+".summarise.model", s.Summarise.Model)
		}
	}
}

// delegates reports agents that are not in the folder of the file.
func (r *reader) delegates(d *Definition) {
	all, err := Folder{Path: r.folder}.List()
	broken, bad := errors.AsType[Problems](err)
	if err != nil && !bad {
		r.report("$.agents", "%v", err)
	}
	var names []string
	for _, other := range all {
		if other.Name != d.Name {
			names = append(names, other.Name)
		}
	}
	for i, name := range d.Agents {
		switch {
		case name == d.Name, slices.Contains(names, name): // delegation to itself was reported before
		case len(broken.of(name)) > 0:
			r.report(at("$.agents", i), "the file of agent %s has problems, too", name)
		default:
			hint := cmp.Or(nearest.Hint(name, names), fmt.Sprintf(": put %s.yaml there", name))
			r.report(at("$.agents", i), "no file in %s defines an agent %q%s", r.folder, name, hint)
		}
	}
}
