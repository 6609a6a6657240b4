package gemini

import (
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/genai"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
)

// skipSignature is the documented signature for calls that the API did not make.
const skipSignature = "skip_thought_signature_validator"

// old reports whether the model predates Gemini 3. Such a model needs no signatures
// for calls of others, and supports neither media in results nor an answer schema
// together with tools.
func (m *Model) old() bool {
	id := strings.TrimPrefix(m.cfg.Model, "models/")
	return strings.HasPrefix(id, "gemini-1") || strings.HasPrefix(id, "gemini-2")
}

// request converts r.
func (m *Model) request(r model.Request) ([]*genai.Content, *genai.GenerateContentConfig, error) {
	if r.Cache != nil && r.Cache.Mode == "required" {
		return nil, nil, provider.Invalid("", "the session requires a prompt cache, which this provider does not offer on request")
	}
	t := transcript{old: m.old()}
	for _, it := range r.Transcript {
		if err := t.add(it); err != nil {
			return nil, nil, err
		}
	}
	if len(t.contents) == 0 {
		return nil, nil, provider.Invalid("", "there is nothing to answer")
	}
	config, err := m.config(r, &t)
	return t.contents, config, err
}

func (m *Model) config(r model.Request, t *transcript) (*genai.GenerateContentConfig, error) {
	never := false
	c := &genai.GenerateContentConfig{
		MaxOutputTokens:       int32(m.cfg.MaxTokens), //nolint:gosec // validate bounds it
		ThinkingConfig:        m.thinking(),
		AutomaticContinuation: &never, // it would be another attempt
		HTTPOptions:           &genai.HTTPOptions{ExtrasRequestProvider: withText},
	}
	if m.cfg.Temperature != nil {
		c.Temperature = new(float32(*m.cfg.Temperature))
	}
	if len(r.Tools) > 0 {
		declarations, err := declare(r.Tools)
		if err != nil {
			return nil, err
		}
		c.Tools = []*genai.Tool{{FunctionDeclarations: declarations}}
	}
	switch {
	case len(r.Schema) == 0:
	case len(r.Tools) > 0 && m.old():
		t.system = append(t.system, genai.NewPartFromText("Your final answer is one JSON value that fits this JSON Schema, and nothing else:\n"+string(r.Schema)))
	default:
		c.ResponseMIMEType = "application/json"
		if err := json.Unmarshal(r.Schema, &c.ResponseJsonSchema); err != nil {
			return nil, provider.Invalid("", "answer schema: %v", err)
		}
	}
	if len(t.system) > 0 {
		c.SystemInstruction = &genai.Content{Parts: t.system}
	}
	return c, nil
}

func (m *Model) thinking() *genai.ThinkingConfig {
	if m.cfg.ThinkingLevel == "" && m.cfg.ThinkingBudget == nil && !m.cfg.Thoughts {
		return nil // some models reject any config
	}
	c := &genai.ThinkingConfig{IncludeThoughts: m.cfg.Thoughts, ThinkingLevel: genai.ThinkingLevel(strings.ToUpper(m.cfg.ThinkingLevel))}
	if b := m.cfg.ThinkingBudget; b != nil {
		c.ThinkingBudget = new(int32(*b)) //nolint:gosec // validate bounds it
	}
	return c
}

func declare(specs []tool.Spec) ([]*genai.FunctionDeclaration, error) {
	all := make([]*genai.FunctionDeclaration, 0, len(specs))
	for _, s := range specs {
		d := &genai.FunctionDeclaration{Name: s.Name, Description: s.Description}
		if len(s.InputSchema) > 0 {
			if err := json.Unmarshal(s.InputSchema, &d.ParametersJsonSchema); err != nil {
				return nil, provider.Invalid("", "schema of tool %s: %v", s.Name, err)
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// withText adds an empty text to parts that contain only a signature. The SDK leaves
// it out, but the API requires it.
func withText(body map[string]any) map[string]any {
	for _, c := range list(body["contents"]) {
		for _, p := range list(c["parts"]) {
			if _, ok := p["thoughtSignature"]; !ok {
				continue
			}
			if len(p) == 1 || len(p) == 2 && p["thought"] != nil {
				p["text"] = ""
			}
		}
	}
	return body
}

// list converts either form in which the SDK holds a list of objects.
func list(v any) []map[string]any {
	switch v := v.(type) {
	case []map[string]any:
		return v
	case []any:
		var all []map[string]any
		for _, e := range v {
			if o, ok := e.(map[string]any); ok {
				all = append(all, o)
			}
		}
		return all
	}
	return nil
}

// transcript is a conversation in the shape of the API.
type transcript struct {
	old      bool
	system   []*genai.Part
	contents []*genai.Content
	calls    []content.ToolCall // so far

	answering bool // the last content contains results
}

func (t *transcript) add(it content.Item) error {
	switch it.Kind {
	case content.System, content.Developer:
		for _, p := range it.Parts {
			if text := textOf(p); text != "" {
				t.system = append(t.system, genai.NewPartFromText(text))
			}
		}
	case content.Assistant:
		return t.reply(it)
	case content.Tool:
		t.results(it)
	case content.Notification:
		if parts := input(it.Parts); len(parts) > 0 {
			t.say(genai.RoleUser, slices.Insert(parts, 0, genai.NewPartFromText("[notification, not written by the user]")))
		}
	case content.User, content.Context:
		t.say(genai.RoleUser, input(it.Parts))
	}
	return nil
}

func (t *transcript) say(role genai.Role, parts []*genai.Part) {
	if len(parts) == 0 {
		return
	}
	t.answering = false
	t.contents = append(t.contents, &genai.Content{Role: string(role), Parts: parts})
}

// reply converts a reply of any provider.
func (t *transcript) reply(it content.Item) error {
	var parts []*genai.Part
	calls := it.Calls()
	t.calls = append(t.calls, calls...)
	sign := !t.old && len(calls) > 0 && !slices.ContainsFunc(it.Parts, func(p content.Part) bool {
		return p.Call != nil && len(signature(p)) > 0
	})
	for _, p := range it.Parts {
		part, err := said(p)
		if err != nil {
			return err
		}
		if part == nil {
			continue
		}
		if part.FunctionCall != nil && sign {
			part.ThoughtSignature, sign = []byte(skipSignature), false
		}
		parts = append(parts, part)
	}
	t.say(genai.RoleModel, parts)
	return nil
}

func signature(p content.Part) []byte {
	if p.Reasoning == nil {
		return nil
	}
	return p.Reasoning.Signature
}

// said converts a part of a reply. It returns nil for parts of other providers.
func said(p content.Part) (*genai.Part, error) {
	switch p.Kind {
	case content.ReasoningKind:
		if p.Name != name || p.Text == "" && len(signature(p)) == 0 {
			return nil, nil //nolint:nilnil // nothing to send
		}
		return &genai.Part{Text: p.Text, Thought: p.Text != "", ThoughtSignature: signature(p)}, nil
	case content.CustomKind:
		if p.Name != customPart {
			return nil, nil //nolint:nilnil // as above
		}
		var part genai.Part
		if err := json.Unmarshal(p.Data, &part); err != nil {
			return nil, provider.Invalid("", "part %s of the transcript: %v", customPart, err)
		}
		return &part, nil
	case content.ToolCallKind:
		return called(p)
	case content.TextKind, content.StructuredKind, content.MediaKind, content.FileKind, content.ToolResultKind:
	}
	part := given(p)
	if part != nil {
		part.ThoughtSignature = signature(p)
	}
	return part, nil
}

func called(p content.Part) (*genai.Part, error) {
	c := p.Call
	args := map[string]any{}
	if len(c.Input) > 0 {
		if err := json.Unmarshal(c.Input, &args); err != nil {
			return nil, provider.Invalid("", "arguments of call %s: %v", c.ID, err)
		}
	}
	return &genai.Part{
		FunctionCall: &genai.FunctionCall{ID: c.ProviderID, Name: c.Name, Args: args}, ThoughtSignature: signature(p),
	}, nil
}
