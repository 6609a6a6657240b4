package agentfile

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/policy/permission"
)

// restriction is what a Go type cannot say of the values at some paths.
type restriction struct {
	at [][]string

	words   []string // the texts that there are
	pattern string   // of a text
	full    bool     // a list or a text cannot be empty
	atLeast int64    // of a number; 0: nothing is said
	minus   string   // what -1 stands for beside numbers from 1 on; "": nothing
	share   bool     // a number of more than 0 and at most 1

	oneOf  []string          // exactly one of these keys is given
	someOf []string          // at least one of these
	notAll []string          // not both of these
	needs  map[string]string // keys that are only of use beside another one
}

// each stands for the elements of a list or map in a path.
const each = "*"

// hold puts the restriction into a schema.
func (r restriction) hold(s *jsonschema.Schema) {
	number := func(n float64) *float64 { return &n }
	one := 1
	if r.pattern != "" {
		s.Pattern = r.pattern
	}
	for _, w := range r.words {
		s.Enum = append(s.Enum, w)
	}
	switch {
	case r.full && s.Items != nil:
		s.MinItems = &one
	case r.full:
		s.MinLength = &one
	}
	if r.atLeast != 0 {
		s.Minimum = number(float64(r.atLeast))
	}
	if r.minus != "" {
		var zero any = 0
		s.Minimum, s.Not, s.Comment = number(-1), &jsonschema.Schema{Const: &zero}, "-1 for "+r.minus
	}
	if r.share {
		s.ExclusiveMinimum, s.Maximum = number(0), number(1)
	}
	s.OneOf, s.AnyOf = append(s.OneOf, given(r.oneOf)...), append(s.AnyOf, given(r.someOf)...)
	if len(r.notAll) > 0 {
		s.Not = &jsonschema.Schema{Required: r.notAll}
	}
	for key, other := range r.needs {
		if s.DependentRequired == nil {
			s.DependentRequired = make(map[string][]string)
		}
		s.DependentRequired[key] = []string{other}
	}
}

// given is a schema for each key, of values that have it.
func given(keys []string) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, k := range keys {
		out = append(out, &jsonschema.Schema{Required: []string{k}})
	}
	return out
}

// inside are the paths of keys of one part.
func inside(part []string, keys ...string) [][]string {
	var out [][]string
	for _, k := range keys {
		out = append(out, append(append([]string(nil), part...), k))
	}
	return out
}

func restrictions() []restriction {
	var all []restriction
	all = append(all, texts()...)
	all = append(all, numbers()...)
	all = append(all, lists()...)
	return append(all, together()...)
}

func texts() []restriction {
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

func numbers() []restriction {
	counts := []string{"rounds", "requests", "tokens", "input_tokens", "output_tokens", "tool_calls", "cost_micros"}
	checks := func(of string) []string { return []string{"guardrails", of, each, "max_length"} }
	steps := []string{"compaction", "steps", each}
	return []restriction{
		{at: inside([]string{"limits"}, counts...), atLeast: 1},
		{at: inside([]string{"session_limits"}, counts...), atLeast: 1},
		{at: inside([]string{"retry"}, "model_attempts", "tool_attempts"), atLeast: 1},
		{at: inside([]string{"compaction"}, "items", "window", "target"), atLeast: 1},
		{at: inside(steps, "keep_items", "keep_turns", "keep_tokens"), atLeast: 1},
		{at: inside(append(steps, "summarise"), "keep_items", "max_tokens"), atLeast: 1},
		{at: [][]string{checks("input"), checks("output"), checks("results")}, atLeast: 1},
		{at: [][]string{{"tools", each, "max_output"}}, atLeast: 1},
		{at: [][]string{{"compaction", "share"}}, share: true},
		{at: [][]string{{"max_parallel"}}, minus: "all"},
		{at: [][]string{{"gate", "max_retries"}}, minus: "none"},
		{at: [][]string{{"output", "repairs"}}, minus: "none"},
	}
}

func lists() []restriction {
	return []restriction{
		{at: [][]string{{"model"}, {"system_file"}, {"output", "schema_file"}, {"compaction", "steps", each, "summarise", "model"}}, full: true},
		{at: [][]string{{"tools"}, {"hooks", each, "points"}, {"compaction", "steps"}, {"mcp", each, "command"}}, full: true},
		{at: inside([]string{"permissions", "paths"}, "protect", "read_only", "allow"), full: true},
		{at: inside([]string{"permissions", "commands"}, "allow", "ask", "deny", "dirs", "allow_env", "deny_env"), full: true},
		{at: inside([]string{"permissions", "servers"}, "trust", "deny", "scopes"), full: true},
		{at: inside([]string{"permissions", "kinds"}, "allow", "ask", "deny"), full: true},
		{at: [][]string{{"guardrails", "input", each, "deny"}, {"guardrails", "output", each, "deny"}, {"guardrails", "results", each, "deny"}}, full: true},
	}
}

// together says which keys go with which.
func together() []restriction {
	return []restriction{
		{at: [][]string{{}}, notAll: []string{"system", "system_file"}, needs: map[string]string{"fallback": "model"}},
		{
			at: [][]string{{"mcp", each}}, oneOf: []string{"command", "url"},
			needs: map[string]string{"env": "command", "headers": "url", "token": "url"},
		},
		{at: [][]string{{"permissions"}}, someOf: []string{"paths", "commands", "servers", "kinds"}},
		{at: [][]string{{"compaction"}}, someOf: []string{"items", "window"}, needs: map[string]string{"share": "window"}},
		{
			at:    [][]string{{"compaction", "steps", each}},
			oneOf: []string{"drop_reasoning", "drop_failed_results", "keep_items", "keep_turns", "keep_tokens", "summarise"},
		},
		{at: [][]string{{"guardrails"}}, someOf: []string{"input", "output", "results"}},
		{
			at:    [][]string{{"guardrails", "input", each}, {"guardrails", "output", each}, {"guardrails", "results", each}},
			oneOf: []string{"max_length", "deny"},
		},
		{at: [][]string{{"output"}}, oneOf: []string{"schema", "schema_file"}},
	}
}
