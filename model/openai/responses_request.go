package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
)

// answerName is the name of an answer schema, which the API requires.
const answerName = "answer"

// responsesRequest returns a request for Responses.
func (m *Model) responsesRequest(r model.Request) responses.ResponseNewParams {
	p := responses.ResponseNewParams{
		Model: m.cfg.Model,
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: m.input(r.Transcript)},
		Store: sdk.Bool(false),
		Tools: responseTools(r.Tools),
	}
	if !m.own || reasons(m.cfg.Model) {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	p.Reasoning.Effort = shared.ReasoningEffort(m.cfg.Effort)
	p.Reasoning.Summary = shared.ReasoningSummary(m.cfg.Summary)
	if m.cfg.MaxTokens > 0 {
		p.MaxOutputTokens = sdk.Int(int64(m.cfg.MaxTokens))
	}
	if m.cfg.Temperature != nil {
		p.Temperature = sdk.Float(*m.cfg.Temperature)
	}
	if len(r.Schema) > 0 {
		p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
			Name: answerName, Schema: fields(r.Schema), Strict: sdk.Bool(strict(r.Schema)),
		}
	}
	if m.cfg.Compact > 0 {
		p.ContextManagement = []responses.ResponseNewParamsContextManagement{
			{Type: "compaction", CompactThreshold: sdk.Int(int64(m.cfg.Compact))},
		}
	}
	key, retention, mode := m.cache(r)
	p.PromptCacheKey, p.PromptCacheOptions.Mode = key, mode
	p.PromptCacheRetention = responses.ResponseNewParamsPromptCacheRetention(retention)
	p.SetExtraFields(map[string]any{"stream": true})
	return p
}

func responseTools(specs []tool.Spec) []responses.ToolUnionParam {
	var all []responses.ToolUnionParam
	for _, s := range specs {
		f := &responses.FunctionToolParam{
			Name: s.Name, Parameters: fields(s.InputSchema),
			Strict: sdk.Bool(strict(s.InputSchema)), // the default is true
		}
		if s.Description != "" {
			f.Description = sdk.String(s.Description)
		}
		all = append(all, responses.ToolUnionParam{OfFunction: f})
	}
	return all
}

// inputWriter converts a transcript to input items.
type inputWriter struct {
	m     *Model
	ids   wireIDs
	known map[content.CallID]bool // calls in the input
	out   responses.ResponseInputParam
}

// input converts the transcript. It leaves out what the provider has compacted,
// except system and developer messages.
func (m *Model) input(items []content.Item) responses.ResponseInputParam {
	w := &inputWriter{m: m, ids: m.wireIDs(items), known: map[content.CallID]bool{}}
	start, part := m.compacted(items)
	for i, it := range items {
		switch {
		case i == start:
			it.Parts = it.Parts[part:]
		case i < start && it.Kind != content.System && it.Kind != content.Developer:
			continue
		}
		w.item(it)
	}
	return w.out
}

// compacted returns the position of the last compaction by this provider, or 0, 0.
func (m *Model) compacted(items []content.Item) (item, part int) {
	for i, it := range slices.Backward(items) {
		for j, p := range slices.Backward(it.Parts) {
			if p.Kind == content.CustomKind && p.Name == compactionPart && m.owns(p) {
				return i, j
			}
		}
	}
	return 0, 0
}

func (w *inputWriter) item(it content.Item) {
	switch it.Kind {
	case content.System:
		w.message(responses.EasyInputMessageRoleSystem, it)
	case content.Developer:
		w.message(responses.EasyInputMessageRoleDeveloper, it)
	case content.User, content.Context, content.Notification:
		w.message(responses.EasyInputMessageRoleUser, it)
	case content.Assistant:
		w.assistant(it)
	case content.Tool:
		w.results(it)
	}
}

func (w *inputWriter) add(item responses.ResponseInputItemUnionParam) { w.out = append(w.out, item) }

func (w *inputWriter) message(role responses.EasyInputMessageRole, it content.Item) {
	all := inputPieces(Responses, it)
	if len(all) == 0 {
		return
	}
	if text, ok := textOf(all, ""); ok {
		w.add(responses.ResponseInputItemParamOfMessage(text, role))
		return
	}
	list := make(responses.ResponseInputMessageContentListParam, len(all))
	for i, p := range all {
		list[i] = inputContent(p, responses.ResponseInputImageDetailAuto)
	}
	w.add(responses.ResponseInputItemParamOfMessage(list, role))
}

func inputContent(p piece, detail responses.ResponseInputImageDetail) responses.ResponseInputContentUnionParam {
	switch {
	case p.image != "":
		image := &responses.ResponseInputImageParam{Detail: detail, ImageURL: sdk.String(p.image)}
		return responses.ResponseInputContentUnionParam{OfInputImage: image}
	case p.fileURL != "":
		return responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{FileURL: sdk.String(p.fileURL)}}
	case p.file != "":
		file := &responses.ResponseInputFileParam{FileData: sdk.String(p.file), Filename: sdk.String(p.fileName)}
		return responses.ResponseInputContentUnionParam{OfInputFile: file}
	}
	return responses.ResponseInputContentParamOfInputText(p.text)
}

// assistant converts a reply to output items. Those of this server keep their ids.
func (w *inputWriter) assistant(it content.Item) {
	parts := it.Parts
	last := len(parts) - 1
	for ; last >= 0 && parts[last].Kind == content.ReasoningKind; last-- { // nothing follows it
	}
	for i := 0; i <= last; i++ {
		switch p := parts[i]; p.Kind {
		case content.TextKind:
			n := 1
			for i+n <= last && sameMessage(p, parts[i+n]) {
				n++
			}
			w.spoken(parts[i : i+n])
			i += n - 1
		case content.StructuredKind:
			w.add(responses.ResponseInputItemParamOfMessage(string(p.Data), responses.EasyInputMessageRoleAssistant))
		case content.ReasoningKind:
			w.reasoning(p)
		case content.ToolCallKind:
			w.call(p)
		case content.CustomKind:
			if strings.HasPrefix(p.Name, customPrefix) && w.m.owns(p) {
				w.add(param.Override[responses.ResponseInputItemUnionParam](p.Data))
			}
		case content.MediaKind, content.FileKind, content.ToolResultKind:
		}
	}
}

// sameMessage reports whether two texts belong to one message.
func sameMessage(a, b content.Part) bool {
	return b.Kind == content.TextKind && noteOf(a).Item != "" && noteOf(a) == noteOf(b)
}

func (w *inputWriter) spoken(texts []content.Part) {
	n := noteOf(texts[0])
	if n.Item == "" || n.Origin != w.m.origin {
		for _, p := range texts {
			if p.Text != "" {
				w.add(responses.ResponseInputItemParamOfMessage(p.Text, responses.EasyInputMessageRoleAssistant))
			}
		}
		return
	}
	msg := &responses.ResponseOutputMessageParam{
		ID: n.Item, Status: responses.ResponseOutputMessageStatusCompleted, Phase: responses.ResponseOutputMessagePhase(n.Phase),
	}
	for _, p := range texts {
		c := responses.ResponseOutputMessageContentUnionParam{}
		if n.Refusal {
			c.OfRefusal = &responses.ResponseOutputRefusalParam{Refusal: p.Text}
		} else {
			c.OfOutputText = &responses.ResponseOutputTextParam{
				Text: p.Text, Annotations: []responses.ResponseOutputTextAnnotationUnionParam{},
			}
		}
		msg.Content = append(msg.Content, c)
	}
	w.add(responses.ResponseInputItemUnionParam{OfOutputMessage: msg})
}

// reasoning sends a reasoning item back unchanged if the server can read it without
// having stored it: it is encrypted, or a compatible server sent its full text.
func (w *inputWriter) reasoning(p content.Part) {
	if p.Name != Provider || p.Reasoning == nil || !w.m.owns(p) {
		return
	}
	if item, ok := returnable(p.Reasoning.Encrypted, !w.m.own); ok {
		w.add(param.Override[responses.ResponseInputItemUnionParam](item))
	}
}

// returnable returns a reasoning item with only the fields allowed in input items,
// each unchanged.
func returnable(raw []byte, open bool) (json.RawMessage, bool) {
	var item struct {
		ID        json.RawMessage `json:"id,omitempty"`
		Type      json.RawMessage `json:"type"`
		Summary   json.RawMessage `json:"summary"`
		Content   json.RawMessage `json:"content,omitempty"`
		Encrypted json.RawMessage `json:"encrypted_content,omitempty"`
	}
	if json.Unmarshal(raw, &item) != nil || plain(item.Type) != "reasoning" {
		return nil, false
	}
	if item.Summary == nil {
		item.Summary = json.RawMessage("[]")
	}
	if text := string(item.Content); text == "null" || text == "[]" {
		item.Content = nil
	}
	if plain(item.Encrypted) == "" {
		item.Encrypted = nil
	}
	if item.Encrypted == nil && (!open || item.Content == nil) {
		return nil, false
	}
	out, err := json.Marshal(item)
	return out, err == nil
}

func (w *inputWriter) call(p content.Part) {
	if p.Call == nil {
		return
	}
	w.known[p.Call.ID] = true
	f := &responses.ResponseFunctionToolCallParam{
		Arguments: cmp.Or(string(p.Call.Input), "{}"), CallID: w.ids[p.Call.ID], Name: p.Call.Name,
	}
	if n := noteOf(p); n.Item != "" && n.Origin == w.m.origin {
		f.ID = sdk.String(n.Item)
	}
	w.add(responses.ResponseInputItemUnionParam{OfFunctionCall: f})
}

func (w *inputWriter) results(it content.Item) {
	for _, r := range it.Results() {
		if !w.known[r.CallID] {
			continue // the call was compacted
		}
		f := &responses.ResponseInputItemFunctionCallOutputParam{CallID: sdk.String(w.ids[r.CallID])}
		all := resultPieces(Responses, r)
		if text, ok := textOf(all, ""); ok {
			f.Output.OfString = sdk.String(text)
		} else {
			for _, p := range all { // as in messages, but the SDK has other types for it
				part := param.Override[responses.ResponseFunctionCallOutputItemUnionParam](inputContent(p, ""))
				f.Output.OfResponseFunctionCallOutputItemArray = append(f.Output.OfResponseFunctionCallOutputItemArray, part)
			}
		}
		w.add(responses.ResponseInputItemUnionParam{OfFunctionCallOutput: f})
	}
}
