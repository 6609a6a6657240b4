package gemini

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
)

// skipSignature is what the provider documents as the signature of a call that it
// did not make itself.
const skipSignature = "skip_thought_signature_validator"

// old reports whether a model is of a generation before the third: it wants no
// signature of foreign calls, takes no media within results, and no schema of the
// answer beside tools.
func (m *Model) old() bool {
	id := strings.TrimPrefix(m.cfg.Model, "models/")
	return strings.HasPrefix(id, "gemini-1") || strings.HasPrefix(id, "gemini-2")
}

// request writes r in the provider's terms.
func (m *Model) request(r model.Request) ([]*genai.Content, *genai.GenerateContentConfig, error) {
	if r.Cache != nil && r.Cache.Mode == "required" {
		return nil, nil, invalid("this provider keeps no prefix of a prompt on request, but the session requires it")
	}
	t := transcript{old: m.old()}
	for _, it := range r.Transcript {
		if err := t.add(it); err != nil {
			return nil, nil, err
		}
	}
	if len(t.contents) == 0 {
		return nil, nil, invalid("there is nothing to answer")
	}
	config, err := m.config(r, &t)
	return t.contents, config, err
}

func invalid(format string, args ...any) error {
	return &model.Error{Class: content.ClassInvalid, Message: fmt.Sprintf(format, args...)}
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
			return nil, invalid("schema of the answer: %v", err)
		}
	}
	if len(t.system) > 0 {
		c.SystemInstruction = &genai.Content{Parts: t.system}
	}
	return c, nil
}

func (m *Model) thinking() *genai.ThinkingConfig {
	if m.cfg.ThinkingLevel == "" && m.cfg.ThinkingBudget == nil && !m.cfg.Thoughts {
		return nil // some models refuse any
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
				return nil, invalid("schema of tool %s: %v", s.Name, err)
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// withText gives the parts that hold a signature and nothing else their empty text,
// which the client leaves out and the provider wants.
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

// list reads a list of objects of either form in which the client holds one.
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

// transcript is a transcript being written in the provider's terms.
type transcript struct {
	old      bool
	system   []*genai.Part
	contents []*genai.Content
	calls    []content.ToolCall // so far

	answering bool // the last content holds results
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

// reply writes a reply of a model, maybe another provider's.
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

// said writes a part of a reply; nil if it is not for this provider.
func said(p content.Part) (*genai.Part, error) {
	switch p.Kind {
	case content.ReasoningKind:
		if p.Name != name || p.Text == "" && len(signature(p)) == 0 {
			return nil, nil //nolint:nilnil // nothing is to be said
		}
		return &genai.Part{Text: p.Text, Thought: p.Text != "", ThoughtSignature: signature(p)}, nil
	case content.CustomKind:
		if p.Name != customPart {
			return nil, nil //nolint:nilnil // as above
		}
		var part genai.Part
		if err := json.Unmarshal(p.Data, &part); err != nil {
			return nil, invalid("a part %s of the transcript: %v", customPart, err)
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
			return nil, invalid("arguments of call %s: %v", c.ID, err)
		}
	}
	return &genai.Part{
		FunctionCall: &genai.FunctionCall{ID: c.ProviderID, Name: c.Name, Args: args}, ThoughtSignature: signature(p),
	}, nil
}
