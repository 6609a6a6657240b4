package agentfile

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/permission"
)

// Schema returns the JSON Schema of agent files, for editors.
func Schema() ([]byte, error) {
	s, err := schema()
	if err != nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("agent file schema: %w", err)
	}
	return append(raw, '\n'), nil
}

func schema() (*jsonschema.Schema, error) {
	s, err := jsonschema.For[Definition](nil)
	if err != nil {
		return nil, fmt.Errorf("agent file schema: %w", err)
	}
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "Turnlog agent"
	for _, r := range restrictions() {
		for _, path := range r.at {
			p, err := find(s, path)
			if err != nil {
				return nil, err
			}
			p.Pattern = r.pattern
			for _, w := range r.words {
				p.Enum = append(p.Enum, w)
			}
		}
	}
	return s, nil
}

// restriction is what a Go type cannot say of a text.
type restriction struct {
	at      [][]string
	words   []string
	pattern string
}

// each stands for the elements of a list or map in a path.
const each = "*"

func restrictions() []restriction {
	return []restriction{
		{at: [][]string{{"name"}, {"agents", each}}, pattern: namePattern},
		{at: [][]string{{"on_busy"}}, words: onBusy()},
		{at: [][]string{{"context", "agents_md"}}, words: agentsMD()},
		{at: [][]string{{"tools", each, "permission"}}, words: permissions()},
		{at: [][]string{{"tools", each, "route"}}, pattern: routePattern},
		{at: [][]string{{"tools", each, "effects"}}, words: effects()},
		{at: [][]string{{"hooks", each, "points", each}}, words: points()},
		{at: [][]string{{"mcp", each, "token"}}, pattern: referencePattern},
		{
			at:    [][]string{{"permissions", "paths", "outside"}, {"permissions", "commands", "outside"}, {"permissions", "servers", "outside"}},
			words: permission.Outsides(),
		},
		{at: [][]string{{"permissions", "commands", "code"}}, words: permission.Codes()},
		{at: [][]string{{"memory", "scope"}}, words: scopes()},
		{at: [][]string{{"cache", "mode"}}, words: cacheModes()},
		{at: [][]string{{"cache", "retention"}}, words: retentions()},
		{
			at: [][]string{
				{"mcp", each, "timeout"},
				{"tools", each, "timeout"},
				{"hooks", each, "timeout"},
				{"limits", "wall_clock"},
				{"session_limits", "wall_clock"},
				{"approvals", "ttl"},
				{"memory", "ttl"},
			},
			pattern: durationPattern,
		},
	}
}

func find(s *jsonschema.Schema, path []string) (*jsonschema.Schema, error) {
	for _, key := range path {
		next := s.Properties[key]
		if key == each {
			next = s.Items
			if next == nil {
				next = s.AdditionalProperties
			}
		}
		if next == nil {
			return nil, fmt.Errorf("agent file schema: nothing at %v", path)
		}
		s = next
	}
	return s, nil
}
