package agentfile

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
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
	plainTypes(s)
	for _, r := range restrictions() {
		for _, path := range r.at {
			p, err := find(s, path)
			if err != nil {
				return nil, err
			}
			r.hold(p)
		}
	}
	return s, nil
}

// plainTypes takes null out of the types: a key is left out instead.
func plainTypes(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if i := slices.IndexFunc(s.Types, func(t string) bool { return t != "null" }); i >= 0 {
		s.Type, s.Types = s.Types[i], nil
	}
	for _, p := range s.Properties {
		plainTypes(p)
	}
	plainTypes(s.Items)
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil {
		plainTypes(s.AdditionalProperties)
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
