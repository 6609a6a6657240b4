package agentfile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/internal/nearest"
)

// compare checks what the file says against itself, and against what the program knows.
func (r *reader) compare(d *Definition) {
	if r.kept {
		return
	}
	for i, t := range d.Tools {
		r.pattern(at("$.tools", i)+".name", t.Name, d)
	}
	if check := r.known.Models; check != nil {
		r.models(d, check)
	}
	if r.known.Beside && r.folder != "" {
		r.delegates(d)
	}
	if data, err := d.Encode(); r.known.Held && err == nil && len(data) > MaxData {
		r.report("", "a definition of %d bytes, with the files that it takes in: at most %d fit into a session", len(data), MaxData)
	}
}

// pattern reports an entry of tools that fits none, as far as the file itself and the
// program know.
func (r *reader) pattern(path, pattern string, d *Definition) {
	name, agent := strings.CutPrefix(pattern, ToolOf(""))
	server, mcp := strings.CutPrefix(pattern, "mcp_")
	switch {
	case pattern == "":
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

func (r *reader) models(d *Definition, check func(string) error) {
	report := func(path, name string) {
		if name == "" || r.isBad(path) {
			return // whoever runs the agent says which, or it was told
		}
		if err := check(name); err != nil {
			r.report(path, "%v", err)
		}
	}
	report("$.model", d.Model)
	for i, name := range d.Fallback {
		report(at("$.fallback", i), name)
	}
	if d.Compaction == nil {
		return
	}
	for i, s := range d.Compaction.Steps {
		if s.Summarise != nil {
			report(at("$.compaction.steps", i)+".summarise.model", s.Summarise.Model)
		}
	}
}

// delegates reports agents that are not in the folder of the file.
func (r *reader) delegates(d *Definition) {
	for i, name := range d.Agents {
		if !isName(name) || name == d.Name {
			continue // that was told
		}
		_, err := Folder(r.folder).Find(context.Background(), name, "")
		_, broken := errors.AsType[Problems](err)
		switch {
		case errors.Is(err, ErrUnknown):
			r.report(at("$.agents", i), "no file in %s is of an agent %q%s", r.folder, name, r.neighbour(name, d.Name))
		case broken:
			r.report(at("$.agents", i), "the file of agent %s cannot be used: see what is wrong with it", name)
		case err != nil:
			r.report(at("$.agents", i), "%v", err)
		}
	}
}

// neighbour suggests an agent of the folder that may be meant.
func (r *reader) neighbour(name, own string) string {
	all, _ := Folder(r.folder).List() // what is wrong with some of them is not asked here
	var names []string
	for _, d := range all {
		if d.Name != own {
			names = append(names, d.Name)
		}
	}
	if hint := nearest.Hint(name, names); hint != "" {
		return hint
	}
	return fmt.Sprintf(": put %s.yaml there", name)
}
