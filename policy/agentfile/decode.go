package agentfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/internal/nearest"
)

// decode reads the definition out of the tree, but for keys that there are not and values
// that cannot be, which are reported and left out. It reports whether there is anything.
func (r *reader) decode(d *Definition) bool {
	if len(r.tree.Docs) == 0 || r.tree.Docs[0].Body == nil || r.tree.Docs[0].Body.Type() == ast.NullType {
		if len(r.problems) == 0 {
			r.report("", "is empty: say at least which model the agent has, as in model: demo")
		}
		return false
	}
	body := r.tree.Docs[0].Body
	s, err := schema()
	if err != nil {
		r.report("", "%v", err)
		return false
	}
	r.schemaOf = s
	if !r.unfolds(body) || !r.fits(body, s, "$") {
		return false
	}
	err = yaml.NewDecoder(strings.NewReader(""), yaml.Strict()).DecodeFromNode(body, d)
	if err != nil && (len(r.problems) == 0 || len(r.anchors) == 0) { // else it may be about what was left out
		r.problems = append(r.problems, r.syntax(err))
	}
	return true
}

// fits reports whether a value is of the schema's kind. What in it is not is left out.
func (r *reader) fits(node ast.Node, s *jsonschema.Schema, path string) bool {
	inner, suffix := element(s)
	kind := kindOf(s)
	if kind == "any" {
		return true
	}
	switch n := node.(type) {
	case *ast.AliasNode:
		return r.aliasFits(n, s, path)
	case *ast.AnchorNode:
		return r.fits(n.Value, s, path)
	case *ast.TagNode:
		return r.fits(n.Value, s, path)
	case *ast.MappingNode:
		if kind != "object" {
			return r.wrong(node, path, s)
		}
		n.Values = slices.DeleteFunc(n.Values, func(v *ast.MappingValueNode) bool { return !r.keyFits(v, s, path) })
		return true
	case *ast.SequenceNode:
		switch {
		case suffix != "[]":
			return r.wrong(node, path, s)
		case len(n.Values) == 0 && s.MinItems != nil:
			return r.refuse(node, path, "is an empty list: %s", emptyHint(path))
		}
		for i, v := range n.Values {
			if !r.fits(v, inner, at(path, i)) {
				n.Values[i] = ast.Null(v.GetToken())
			}
		}
		return true
	}
	return r.scalarFits(node, s, path)
}

func emptyHint(path string) string {
	if path == "$.tools" {
		return `leave it out for all tools, or write [{name: "*", permission: deny}] for none`
	}
	return "name something, or leave it out"
}

// keyFits reports whether a key is one of the schema's and its value is of the right kind.
func (r *reader) keyFits(v *ast.MappingValueNode, s *jsonschema.Schema, path string) bool {
	if v.Key.IsMergeKey() {
		return r.fits(v.Value, s, path)
	}
	key := v.Key.GetToken().Value
	here := path + "." + key
	inner, suffix := element(s)
	if suffix != ".NAME" {
		if inner = s.Properties[key]; inner == nil {
			r.bad = append(r.bad, here)
			r.problem(v.Key, "", "unknown field %q%s", key, r.meant(key, s))
			return false
		}
	}
	return r.fits(v.Value, inner, here)
}

// aliasFits looks at what an alias stands for.
func (r *reader) aliasFits(n *ast.AliasNode, s *jsonschema.Schema, path string) bool {
	name := n.Value.GetToken().Value
	value, ok := r.anchors[name]
	switch {
	case !ok:
		return r.refuse(n, path, "*%s: there is no &%s above it; a text that begins with * has to be in quotes", name, name)
	case slices.Contains(r.within, name):
		return r.refuse(n, path, "*%s holds itself", name)
	}
	before := len(r.bad)
	r.within = append(r.within, name)
	ok = r.fits(value, s, path)
	r.within = r.within[:len(r.within)-1]
	return ok && len(r.bad) == before
}

// wrong reports that a value is of another kind than is wanted.
func (r *reader) wrong(node ast.Node, path string, s *jsonschema.Schema) bool {
	return r.refuse(node, path, "want %s, not %s%s", nameOf(s), shown(node), instead(node, s))
}

// refuse reports what is wrong with a value that is left out, and returns false.
func (r *reader) refuse(node ast.Node, path, format string, args ...any) bool {
	r.bad = append(r.bad, path)
	r.problem(node, path, format, args...)
	return false
}

// problem adds a problem at a node.
func (r *reader) problem(node ast.Node, path, format string, args ...any) {
	p := Problem{File: r.file, Path: path, Message: fmt.Sprintf(format, args...)}
	if t := first(node); t != nil && t.Position != nil {
		p.Line, p.Column = t.Position.Line, t.Position.Column
	}
	r.problems = append(r.problems, p)
}

// meant suggests the key that somebody may have meant.
func (r *reader) meant(key string, s *jsonschema.Schema) string {
	elsewhere := ""
	if places := r.placesOf(key); len(places) > 0 {
		elsewhere = ": it belongs under " + strings.Join(places, " or ")
	}
	if s == r.schemaOf {
		if hint := foreign(key); hint != "" {
			return ": " + hint
		}
		return cmp.Or(elsewhere, nearest.Hint(key, s.PropertyOrder))
	}
	if hint := cmp.Or(nearest.Hint(key, s.PropertyOrder), elsewhere); hint != "" {
		return hint
	}
	if len(s.PropertyOrder) <= fewKeys {
		return ": there are " + strings.Join(s.PropertyOrder, ", ")
	}
	return ""
}

const (
	fewKeys   = 10 // are told in a message
	fewPlaces = 2
)

// placesOf are the parts of a file that have such a key, if they are few.
func (r *reader) placesOf(key string) []string {
	var places []string
	for _, part := range r.schemaOf.PropertyOrder {
		if inner, suffix := element(r.schemaOf.Properties[part]); inner.Properties[key] != nil {
			places = append(places, part+suffix)
		}
	}
	if len(places) > fewPlaces {
		return nil
	}
	return places
}

// foreign is what a key of other programs' files is here.
func foreign(key string) string {
	switch key {
	case "prompt", "system_prompt", "systemPrompt", "instructions":
		return "the prompt is system, or system_file"
	case "mcp_servers", "mcpServers", "servers":
		return "MCP servers are under mcp"
	case "subagents", "sub_agents", "subAgents", "delegates":
		return "agents that it may delegate to are under agents"
	case "provider":
		return "the provider is the begin of model, as in model: anthropic:NAME"
	case "temperature", "max_tokens", "effort", "thinking":
		return "it is an option of the model, as in model: PROVIDER:NAME?" + key + "=…"
	case "api_key", "apiKey", "key", "token":
		return "keys are never in the file, but in the environment of the process that calls the model"
	case "base_url", "baseUrl", "endpoint":
		return "addresses are in the environment of the process that calls the model, or the option base_url of model"
	case "max_rounds", "max_turns", "max_iterations", "max_steps":
		return "it is rounds under limits"
	}
	return ""
}
