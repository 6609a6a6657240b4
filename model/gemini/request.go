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

// request is the body of a request.
type request struct {
	Contents          []message              `json:"contents"`
	SystemInstruction *message               `json:"systemInstruction,omitempty"`
	Tools             []*genai.Tool          `json:"tools,omitempty"`
	Config            genai.GenerationConfig `json:"generationConfig"`
}

type message struct {
	Role  genai.Role `json:"role"`
	Parts []part     `json:"parts"`
}

// part is a part of a message. Its text may be empty: the SDK's type leaves that out, but
// the API requires it in a part that has only a signature.
type part struct {
	*genai.Part

	Text *string `json:"text,omitempty"`
}

func newMessage(role genai.Role, parts []*genai.Part) message {
	m := message{Role: role}
	for _, p := range parts {
		w := part{Part: p}
		if p.Text != "" || p.FunctionCall == nil && p.InlineData == nil && !foreign(p) {
			w.Text = &p.Text
		}
		m.Parts = append(m.Parts, w)
	}
	return m
}

// request converts r.
func (m *Model) request(r model.Request) (request, error) {
	var out request
	if r.Cache != nil && r.Cache.Mode == "required" {
		return out, provider.Invalid("", "the session requires a prompt cache, which this provider does not offer on request")
	}
	t := transcript{old: m.old(), calls: map[content.CallID]content.ToolCall{}}
	for _, it := range r.Transcript {
		if err := t.add(it); err != nil {
			return out, err
		}
	}
	if len(t.contents) == 0 {
		return out, provider.Invalid("", "there is nothing to answer")
	}
	if len(r.Tools) > 0 {
		declarations, err := declare(r.Tools)
		if err != nil {
			return out, err
		}
		out.Tools = []*genai.Tool{{FunctionDeclarations: declarations}}
	}
	out.Config.MaxOutputTokens = int32(m.cfg.MaxTokens) //nolint:gosec // validate bounds it
	out.Config.ThinkingConfig = m.thinking()
	if m.cfg.Temperature != nil {
		out.Config.Temperature = new(float32(*m.cfg.Temperature))
	}
	switch {
	case len(r.Schema) == 0:
	case len(r.Tools) > 0 && m.old():
		t.system = append(t.system, genai.NewPartFromText("Your final answer is one JSON value that fits this JSON Schema, and nothing else:\n"+string(r.Schema)))
	default:
		out.Config.ResponseMIMEType = "application/json"
		if err := json.Unmarshal(r.Schema, &out.Config.ResponseJsonSchema); err != nil {
			return out, provider.Invalid("", "answer schema: %v", err)
		}
	}
	if len(t.system) > 0 {
		system := newMessage(genai.RoleUser, t.system)
		out.SystemInstruction = &system
	}
	for _, c := range t.contents {
		out.Contents = append(out.Contents, newMessage(genai.Role(c.Role), c.Parts))
	}
	return out, nil
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

// transcript is a conversation in the shape of the API.
type transcript struct {
	old      bool
	system   []*genai.Part
	contents []*genai.Content
	calls    map[content.CallID]content.ToolCall // so far

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
	for _, c := range calls {
		t.calls[c.ID] = c
	}
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
