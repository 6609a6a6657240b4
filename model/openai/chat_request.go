package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
)

// chatRequest returns a request for Chat.
func (m *Model) chatRequest(r model.Request) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{
		Model:           m.cfg.Model,
		Messages:        m.messages(r.Transcript),
		Tools:           m.chatTools(r.Tools),
		ReasoningEffort: shared.ReasoningEffort(m.cfg.Effort),
	}
	p.SetExtraFields(map[string]any{"stream": true})
	if *m.cfg.Usage {
		p.StreamOptions.IncludeUsage = sdk.Bool(true)
	}
	if n := int64(m.cfg.MaxTokens); n > 0 && m.own {
		p.MaxCompletionTokens = sdk.Int(n)
	} else if n > 0 {
		p.MaxTokens = sdk.Int(n) // some servers do not know the newer name
	}
	if m.cfg.Temperature != nil {
		p.Temperature = sdk.Float(*m.cfg.Temperature)
	}
	if len(r.Schema) > 0 {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: answerName, Schema: fields(r.Schema), Strict: sdk.Bool(strict(r.Schema)),
			},
		}
	}
	if m.own {
		key, retention, mode := m.cache(r)
		p.PromptCacheKey, p.PromptCacheOptions.Mode = key, mode
		p.PromptCacheRetention = sdk.ChatCompletionNewParamsPromptCacheRetention(retention)
		p.Store = sdk.Bool(false)
	}
	return p
}

func (m *Model) chatTools(specs []tool.Spec) []sdk.ChatCompletionToolUnionParam {
	var all []sdk.ChatCompletionToolUnionParam
	for _, s := range specs {
		f := shared.FunctionDefinitionParam{Name: s.Name, Parameters: fields(s.InputSchema)}
		if s.Description != "" {
			f.Description = sdk.String(s.Description)
		}
		if m.own && strict(s.InputSchema) { // the default is false, and not all servers know the field
			f.Strict = sdk.Bool(true)
		}
		all = append(all, sdk.ChatCompletionFunctionTool(f))
	}
	return all
}

// chatWriter converts a transcript to messages. It merges neighboring items of one
// role, because the templates of many servers require that roles alternate and that
// there is one system message, at the start.
type chatWriter struct {
	m   *Model
	ids wireIDs
	out []sdk.ChatCompletionMessageParamUnion

	role  string
	open  [][]piece // the items of the current role
	shown []piece   // media of results, waiting for a user message
}

func (m *Model) messages(items []content.Item) []sdk.ChatCompletionMessageParamUnion {
	w := &chatWriter{m: m, ids: m.wireIDs(items)}
	for _, it := range items {
		if it.Kind != content.Tool {
			w.show()
		}
		switch it.Kind {
		case content.System:
			w.say("system", it)
		case content.Developer:
			w.say(w.developer(), it)
		case content.User, content.Context, content.Notification:
			w.say("user", it)
		case content.Assistant:
			w.flush()
			w.assistant(it)
		case content.Tool:
			w.flush()
			w.results(it)
		}
	}
	w.show()
	w.flush()
	return w.out
}

// developer returns the developer role, which other servers do not know.
func (w *chatWriter) developer() string {
	if w.m.own {
		return "developer"
	}
	return "system"
}

func (w *chatWriter) say(role string, it content.Item) {
	all := inputPieces(Chat, it)
	if len(all) == 0 {
		return
	}
	if role != w.role {
		w.flush()
	}
	w.role = role
	w.open = append(w.open, all)
}

// flush writes the message of the current role.
func (w *chatWriter) flush() {
	if len(w.open) == 0 {
		return
	}
	var texts []string
	var all []piece
	for _, said := range w.open {
		text, ok := textOf(said, "")
		switch {
		case ok:
			said = []piece{{text: text}}
		case w.role != "user": // only user messages may contain media
			said = slices.DeleteFunc(said, func(p piece) bool { return !p.isText() })
			text, _ = textOf(said, "")
		}
		texts = append(texts, text)
		all = append(all, said...)
	}
	_, plain := textOf(all, "")
	switch text := strings.Join(texts, "\n\n"); {
	case w.role == "system":
		w.out = append(w.out, sdk.SystemMessage(text))
	case w.role == "developer":
		w.out = append(w.out, sdk.DeveloperMessage(text))
	case plain:
		w.out = append(w.out, sdk.UserMessage(text))
	default:
		w.out = append(w.out, sdk.UserMessage(chatParts(all)))
	}
	w.open = nil
}

// show adds the media of results to a user message, because tool messages may contain
// only text.
func (w *chatWriter) show() {
	if len(w.shown) == 0 {
		return
	}
	if w.role != "user" {
		w.flush()
	}
	w.role = "user"
	w.open = append(w.open, w.shown)
	w.shown = nil
}

func chatParts(all []piece) []sdk.ChatCompletionContentPartUnionParam {
	var parts []sdk.ChatCompletionContentPartUnionParam
	for _, p := range all {
		switch {
		case p.image != "":
			parts = append(parts, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: p.image}))
		case p.audio != "":
			parts = append(parts, sdk.InputAudioContentPart(sdk.ChatCompletionContentPartInputAudioInputAudioParam{
				Data: p.audio, Format: p.audioFormat,
			}))
		case p.file != "":
			parts = append(parts, sdk.FileContentPart(sdk.ChatCompletionContentPartFileFileParam{
				FileData: sdk.String(p.file), Filename: sdk.String(p.fileName),
			}))
		default:
			parts = append(parts, sdk.TextContentPart(p.text))
		}
	}
	return parts
}

func (w *chatWriter) assistant(it content.Item) {
	msg := &sdk.ChatCompletionAssistantMessageParam{}
	var text strings.Builder
	for _, p := range it.Parts {
		switch p.Kind {
		case content.TextKind:
			text.WriteString(p.Text)
		case content.StructuredKind:
			text.Write(p.Data)
		case content.ToolCallKind:
			if p.Call != nil {
				msg.ToolCalls = append(msg.ToolCalls, w.call(*p.Call))
			}
		case content.MediaKind, content.FileKind, content.ReasoningKind, content.ToolResultKind, content.CustomKind:
		}
	}
	if text.Len() > 0 {
		msg.Content.OfString = sdk.String(text.String())
	}
	if extra := w.m.thoughts(it, len(msg.ToolCalls) > 0); len(extra) > 0 {
		msg.SetExtraFields(extra)
	}
	if text.Len() > 0 || len(msg.ToolCalls) > 0 {
		w.out = append(w.out, sdk.ChatCompletionMessageParamUnion{OfAssistant: msg})
	}
}

func (w *chatWriter) call(c content.ToolCall) sdk.ChatCompletionMessageToolCallUnionParam {
	return sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
		ID: w.ids[c.ID],
		Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
			Name: c.Name, Arguments: cmp.Or(string(c.Input), "{}"),
		},
	}}
}

// thoughts returns the reasoning to send back with a message, in its original field:
// signed details always, plain text only with calls. Servers that want it want it
// there, and the others ignore it.
func (m *Model) thoughts(it content.Item, calls bool) map[string]any {
	extra := map[string]any{}
	for _, p := range it.Parts {
		if p.Kind != content.ReasoningKind || p.Name != Provider || !m.owns(p) {
			continue
		}
		n := noteOf(p)
		switch {
		case p.Reasoning != nil && bytes.HasPrefix(p.Reasoning.Encrypted, []byte("[")):
			extra[detailsField] = json.RawMessage(p.Reasoning.Encrypted)
		case calls && n.Field != "" && p.Text != "":
			before, _ := extra[n.Field].(string)
			extra[n.Field] = before + p.Text
		}
	}
	return extra
}

func (w *chatWriter) results(it content.Item) {
	for _, r := range it.Results() {
		var texts []string
		var shown []piece
		for _, p := range resultPieces(Chat, r) {
			if p.isText() {
				texts = append(texts, p.text)
			} else {
				shown = append(shown, p)
			}
		}
		id := w.ids[r.CallID]
		if len(shown) > 0 {
			texts = append(texts, "\n[media follow below]")
			w.shown = append(w.shown, piece{text: "Media of the call " + id + " of " + r.Name + ":"})
			w.shown = append(w.shown, shown...)
		}
		w.out = append(w.out, sdk.ToolMessage(strings.Join(texts, ""), id))
	}
}
