package anthropic

import (
	"cmp"
	"encoding/json"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
)

// params returns the request. Its bytes depend only on r and the configuration.
func (c Config) params(r model.Request) (sdk.BetaMessageNewParams, error) {
	p := sdk.BetaMessageNewParams{
		Model:        c.Model,
		MaxTokens:    c.MaxTokens,
		Thinking:     c.thinking(),
		OutputConfig: sdk.BetaOutputConfigParam{Effort: sdk.BetaOutputConfigEffort(c.Effort)},
		Betas:        slices.Clone(c.Betas),
	}
	if c.Temperature != nil {
		p.Temperature = sdk.Float(*c.Temperature)
	}
	if len(r.Schema) > 0 {
		schema, err := object(r.Schema)
		if err != nil {
			return p, provider.Invalid("schema", "the answer schema is not a JSON object")
		}
		p.OutputConfig.Format = sdk.BetaJSONSchemaOutputFormat(schema)
	}
	tools, err := c.tools(r.Tools)
	if err != nil {
		return p, err
	}
	p.Tools = tools
	t := write(r.Transcript)
	if err := c.cache(r.Cache, t, p.Tools); err != nil {
		return p, err
	}
	p.System, p.Messages = t.params()
	if c.CompactAt > 0 || t.compacted {
		p.Betas = append(p.Betas, sdk.AnthropicBetaCompact2026_01_12)
		p.ContextManagement.Edits = []sdk.BetaContextManagementConfigEditUnionParam{{
			OfCompact20260112: &sdk.BetaCompact20260112EditParam{
				PauseAfterCompaction: sdk.Bool(true), // the session continues with another round
				Trigger:              sdk.BetaInputTokensTriggerParam{Value: cmp.Or(c.CompactAt, neverCompact)},
			},
		}}
	}
	p.SetExtraFields(map[string]any{"stream": true})
	return p, nil
}

// neverCompact exceeds every context window. The API accepts a transcript with a
// compaction only if the request declares the feature, even if it wants no other.
const neverCompact = 100_000_000

func (c Config) thinking() sdk.BetaThinkingConfigParamUnion {
	switch c.Thinking {
	case "":
		return sdk.BetaThinkingConfigParamUnion{}
	case "off":
		off := sdk.NewBetaThinkingConfigDisabledParam()
		return sdk.BetaThinkingConfigParamUnion{OfDisabled: &off}
	case "between_tools":
		between := sdk.NewBetaThinkingConfigBetweenToolsParam()
		return sdk.BetaThinkingConfigParamUnion{OfBetweenTools: &between}
	case "adaptive":
		return sdk.BetaThinkingConfigParamUnion{OfAdaptive: &sdk.BetaThinkingConfigAdaptiveParam{
			Display: sdk.BetaThinkingConfigAdaptiveDisplay(c.ThinkingDisplay),
		}}
	}
	budget, _ := c.budget() // checked by validate
	// The override avoids the SDK's budget warnings on stderr.
	return param.Override[sdk.BetaThinkingConfigParamUnion](sdk.BetaThinkingConfigEnabledParam{
		BudgetTokens: budget,
		Display:      sdk.BetaThinkingConfigEnabledDisplay(c.ThinkingDisplay),
	})
}

func (c Config) tools(specs []tool.Spec) ([]sdk.BetaToolUnionParam, error) {
	var all []sdk.BetaToolUnionParam
	for _, s := range specs {
		t := sdk.BetaToolParam{Name: s.Name}
		if s.Description != "" {
			t.Description = sdk.String(s.Description)
		}
		if c.EagerInput {
			t.EagerInputStreaming = sdk.Bool(true)
		}
		schema, err := c.inputSchema(s)
		if err != nil {
			return nil, provider.Invalid("tool_schema", "the schema of tool %s is not a JSON object", s.Name)
		}
		if c.Strict {
			t.Strict = sdk.Bool(true)
		}
		t.InputSchema = param.Override[sdk.BetaToolInputSchemaParam](schema)
		all = append(all, sdk.BetaToolUnionParam{OfTool: &t})
	}
	return all, nil
}

// inputSchema returns the schema of a tool, or the part of it that the API can
// enforce. The SDK would write the fields in random order, which defeats the cache.
func (c Config) inputSchema(s tool.Spec) (json.RawMessage, error) {
	schema := s.InputSchema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	fields, err := object(schema)
	if err != nil || !c.Strict {
		return schema, err
	}
	return json.Marshal(sdk.BetaToolInputSchema(fields).ExtraFields) //nolint:wrapcheck // the caller adds the context
}

func object(raw json.RawMessage) (map[string]any, error) {
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err //nolint:wrapcheck // the caller adds the context
	}
	if m == nil {
		m = map[string]any{}
	}
	return m, nil
}
