package anthropic

import (
	"cmp"
	"encoding/json"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
)

// params writes a request. Its bytes depend on r and the configuration alone.
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
			return p, invalid("schema", "the answer's schema is not a JSON object")
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
				PauseAfterCompaction: sdk.Bool(true), // the session goes on with a round of its own
				Trigger:              sdk.BetaInputTokensTriggerParam{Value: cmp.Or(c.CompactAt, neverCompact)},
			},
		}}
	}
	return p, nil
}

// neverCompact is more than any context holds. A transcript with a compaction is
// taken only by a request that declares the feature, also if no more are wanted.
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
	// Where it sees a budget, the SDK writes warnings about some models to stderr.
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
			return nil, invalid("tool_schema", "the schema of tool "+s.Name+" is not a JSON object")
		}
		if c.Strict {
			t.Strict = sdk.Bool(true)
		}
		t.InputSchema = param.Override[sdk.BetaToolInputSchemaParam](schema)
		all = append(all, sdk.BetaToolUnionParam{OfTool: &t})
	}
	return all, nil
}

// inputSchema is the tool's own schema, or the part of it that the API can promise.
// It is written here, not by the SDK, whose order of fields changes from one request
// to the next: no prompt would be found in the cache.
func (c Config) inputSchema(s tool.Spec) (json.RawMessage, error) {
	schema := s.InputSchema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	fields, err := object(schema)
	if err != nil || !c.Strict {
		return schema, err
	}
	return json.Marshal(sdk.BetaToolInputSchema(fields).ExtraFields) //nolint:wrapcheck // the caller says what it was
}

func object(raw json.RawMessage) (map[string]any, error) {
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was
	}
	if m == nil {
		m = map[string]any{}
	}
	return m, nil
}

// invalid is the failure of a request that is not sent.
func invalid(code, message string) error {
	return &model.Error{Class: content.ClassInvalid, Code: code, Message: message}
}
