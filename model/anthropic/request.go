package anthropic

import (
	"cmp"
	"encoding/json"

	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
)

type object = provider.Object

// request returns the body of a request and reports whether it needs the compaction
// feature. Its bytes depend only on r and the configuration.
func (c Config) request(r model.Request) (body object, compacting bool, err error) {
	tools, err := c.tools(r.Tools)
	if err != nil {
		return nil, false, err
	}
	t := write(r.Transcript)
	if err := c.cache(r.Cache, t, tools); err != nil {
		return nil, false, err
	}
	o := object{"model": c.Model, "max_tokens": c.MaxTokens, "messages": t.wireMessages(), "stream": true}
	o.Opt("system", params(t.system))
	o.Opt("tools", tools)
	o.Opt("temperature", c.Temperature)
	o.Opt("thinking", c.thinking())
	output := object{}
	output.Opt("effort", c.Effort)
	if len(r.Schema) > 0 {
		schema, err := fields(r.Schema)
		if err != nil {
			return nil, false, provider.Invalid("schema", "the answer schema is not a JSON object")
		}
		output["format"] = object{"type": "json_schema", "schema": enforceable(schema)}
	}
	if len(output) > 0 {
		o["output_config"] = output
	}
	compacting = c.CompactAt > 0 || t.compacted
	if compacting {
		o["context_management"] = object{"edits": []object{{
			"type":                   "compact_20260112",
			"pause_after_compaction": true, // the session continues with another round
			"trigger":                object{"type": "input_tokens", "value": cmp.Or(c.CompactAt, neverCompact)},
		}}}
	}
	return o, compacting, nil
}

// neverCompact exceeds every context window. The API accepts a transcript with a
// compaction only if the request declares the feature, even if it wants no other.
const neverCompact = 100_000_000

// thinking returns the thinking configuration, or nil for the model's.
func (c Config) thinking() object {
	switch c.Thinking {
	case "":
		return nil
	case "off":
		return object{"type": "disabled"}
	case "between_tools":
		return object{"type": "between_tools"}
	}
	o := object{"type": "adaptive"}
	if budget, _ := c.budget(); budget > 0 { // complete has checked it
		o = object{"type": "enabled", "budget_tokens": budget}
	}
	o.Opt("display", c.ThinkingDisplay)
	return o
}

func (c Config) tools(specs []tool.Spec) ([]object, error) {
	var all []object
	for _, s := range specs {
		t := object{"name": s.Name}
		t.Opt("description", s.Description)
		t.Opt("eager_input_streaming", c.EagerInput)
		t.Opt("strict", c.Strict)
		raw := s.InputSchema
		if len(raw) == 0 {
			raw = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		schema, err := fields(raw)
		if err != nil {
			return nil, provider.Invalid("tool_schema", "the schema of tool %s is not a JSON object", s.Name)
		}
		t["input_schema"] = raw
		if c.Strict { // the part of it that the API can enforce
			t["input_schema"] = enforceable(schema)
		}
		all = append(all, t)
	}
	return all, nil
}

func fields(raw json.RawMessage) (map[string]any, error) {
	m := map[string]any{}
	err := json.Unmarshal(raw, &m)
	return m, err //nolint:wrapcheck // the caller adds the context
}
