package gemini

import (
	"bytes"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
)

type object = provider.Object

// skipSignature is the documented signature for calls that the API did not make.
const skipSignature = "skip_thought_signature_validator"

// old reports whether the model predates Gemini 3. Such a model needs no signatures
// for calls of others, and supports neither media in results nor an answer schema
// together with tools.
func (m *Model) old() bool {
	id := strings.TrimPrefix(m.cfg.Model, "models/")
	return strings.HasPrefix(id, "gemini-1") || strings.HasPrefix(id, "gemini-2")
}

func (m *Model) request(r model.Request) (object, error) {
	if r.Cache != nil && r.Cache.Mode == "required" {
		return nil, provider.Invalid("", "the session requires a prompt cache, which this provider does not offer on request")
	}
	t := transcript{old: m.old(), calls: map[content.CallID]content.ToolCall{}}
	for _, it := range r.Transcript {
		t.add(it)
	}
	if len(t.messages) == 0 {
		return nil, provider.Invalid("", "there is nothing to answer")
	}
	config := object{}
	config.Opt("maxOutputTokens", m.cfg.MaxTokens)
	config.Opt("temperature", m.cfg.Temperature)
	config.Opt("thinkingConfig", m.thinking())
	switch {
	case len(r.Schema) == 0:
	case len(r.Tools) > 0 && m.old():
		t.system = append(t.system, "Your final answer is one JSON value that fits this JSON Schema, and nothing else:\n"+string(r.Schema))
	default:
		config["responseMimeType"], config["responseJsonSchema"] = "application/json", r.Schema
	}
	o := object{"contents": t.messages, "generationConfig": config}
	if len(t.system) > 0 {
		system := message{Role: "user"}
		for _, text := range t.system {
			system.Parts = append(system.Parts, object{"text": text})
		}
		o["systemInstruction"] = system
	}
	if len(r.Tools) > 0 {
		o["tools"] = []object{{"functionDeclarations": declare(r.Tools)}}
	}
	return o, nil
}

// thinking returns nil without options, because some models reject any configuration.
func (m *Model) thinking() object {
	var o object
	if m.cfg.ThinkingLevel != "" || m.cfg.ThinkingBudget != nil || m.cfg.Thoughts {
		o = object{}
		o.Opt("includeThoughts", m.cfg.Thoughts)
		o.Opt("thinkingLevel", strings.ToUpper(m.cfg.ThinkingLevel))
		o.Opt("thinkingBudget", m.cfg.ThinkingBudget)
	}
	return o
}

func declare(specs []tool.Spec) []object {
	var all []object
	for _, s := range specs {
		o := object{"name": s.Name}
		o.Opt("description", s.Description)
		o.Opt("parametersJsonSchema", s.InputSchema)
		all = append(all, o)
	}
	return all
}

// transcript is a conversation in the shape of the API.
type transcript struct {
	old      bool
	system   []string
	messages []message
	calls    map[content.CallID]content.ToolCall // so far

	answering bool // the last message contains results
}

type message struct {
	Role  string `json:"role"`
	Parts []any  `json:"parts"` // objects, or the JSON of parts of the provider
}

func (t *transcript) add(it content.Item) {
	switch it.Kind {
	case content.System, content.Developer:
		for _, p := range it.Parts {
			if text := textOf(p); text != "" {
				t.system = append(t.system, text)
			}
		}
	case content.Assistant:
		t.reply(it)
	case content.Tool:
		t.results(it)
	case content.Notification:
		if parts := input(it.Parts); len(parts) > 0 {
			t.say("user", slices.Insert(parts, 0, any(object{"text": "[notification, not written by the user]"})))
		}
	case content.User, content.Context:
		t.say("user", input(it.Parts))
	}
}

func (t *transcript) say(role string, parts []any) {
	if len(parts) == 0 {
		return
	}
	t.answering = false
	t.messages = append(t.messages, message{Role: role, Parts: parts})
}

// reply converts a reply of any provider.
func (t *transcript) reply(it content.Item) {
	var parts []any
	sign := !t.old && !slices.ContainsFunc(it.Parts, func(p content.Part) bool {
		return p.Call != nil && len(signature(p)) > 0
	})
	for _, p := range it.Parts {
		if p.Kind == content.CustomKind && p.Name == customPart {
			parts = append(parts, p.Data)
			continue
		}
		o := replyPart(p)
		if o == nil {
			continue
		}
		if c := p.Call; c != nil {
			t.calls[c.ID] = *c
			if sign {
				o["thoughtSignature"], sign = []byte(skipSignature), false
			}
		}
		parts = append(parts, o)
	}
	t.say("model", parts)
}

func signature(p content.Part) []byte {
	if p.Reasoning == nil {
		return nil
	}
	return p.Reasoning.Signature
}

// replyPart converts a part of a reply. It returns nil for parts of other providers.
func replyPart(p content.Part) object {
	var o object
	switch p.Kind {
	case content.ReasoningKind:
		if p.Name != name || p.Text == "" && len(signature(p)) == 0 {
			return nil
		}
		o = object{"text": p.Text}
		o.Opt("thought", p.Text != "")
	case content.ToolCallKind:
		call := object{"name": p.Call.Name}
		call.Opt("id", p.Call.ProviderID)
		if args := string(bytes.TrimSpace(p.Call.Input)); !slices.Contains([]string{"", "null", "{}"}, args) {
			call["args"] = p.Call.Input
		}
		o = object{"functionCall": call}
	case content.TextKind, content.StructuredKind, content.MediaKind, content.FileKind, content.ToolResultKind, content.CustomKind:
		o = given(p)
	}
	if o != nil {
		o.Opt("thoughtSignature", signature(p))
	}
	return o
}
