package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

func (m *Model) responsesRequest(r model.Request) object {
	o := m.request(r)
	o["input"] = m.input(r.Transcript)
	o.Opt("max_output_tokens", m.cfg.MaxTokens)
	if !m.own || reasons(m.cfg.Model) {
		o["include"] = []string{"reasoning.encrypted_content"}
	}
	reasoning := object{}
	reasoning.Opt("effort", m.cfg.Effort)
	reasoning.Opt("summary", m.cfg.Summary)
	if len(reasoning) > 0 {
		o["reasoning"] = reasoning
	}
	if len(r.Schema) > 0 {
		format := answerFormat(r.Schema)
		format["type"] = "json_schema"
		o["text"] = object{"format": format}
	}
	if m.cfg.Compact > 0 {
		o["context_management"] = []object{{"type": "compaction", "compact_threshold": m.cfg.Compact}}
	}
	return o
}

// inputWriter converts a transcript to input items.
type inputWriter struct {
	m     *Model
	ids   wireIDs
	known map[content.CallID]bool // calls in the input
	out   []any
}

// input converts the transcript. It leaves out what the provider has compacted,
// except system and developer messages.
func (m *Model) input(items []content.Item) []any {
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
		w.message("system", it)
	case content.Developer:
		w.message("developer", it)
	case content.User, content.Context, content.Notification:
		w.message("user", it)
	case content.Assistant:
		w.assistant(it)
	case content.Tool:
		w.results(it)
	}
}

func (w *inputWriter) add(item any) { w.out = append(w.out, item) }

func (w *inputWriter) message(role string, it content.Item) {
	if all := inputPieces(Responses, it); len(all) > 0 {
		w.add(object{"role": role, "content": readable(all)})
	}
}

// readable returns pieces of text as a string, otherwise a list.
func readable(all []piece) any {
	if text, ok := textOf(all, ""); ok {
		return text
	}
	list := make([]object, len(all))
	for i, p := range all {
		list[i] = p.responses()
	}
	return list
}

// assistant converts a reply to output items. Items of this server keep their ids.
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
			w.appendSpoken(parts[i : i+n])
			i += n - 1
		case content.StructuredKind:
			w.add(object{"role": "assistant", "content": string(p.Data)})
		case content.ReasoningKind:
			w.reasoning(p)
		case content.ToolCallKind:
			w.call(p)
		case content.CustomKind:
			if strings.HasPrefix(p.Name, customPrefix) && w.m.owns(p) {
				w.add(p.Data)
			}
		case content.MediaKind, content.FileKind, content.ToolResultKind:
		}
	}
}

// sameMessage reports whether two texts belong to one message.
func sameMessage(a, b content.Part) bool {
	return b.Kind == content.TextKind && noteOf(a).Item != "" && noteOf(a) == noteOf(b)
}

func (w *inputWriter) appendSpoken(texts []content.Part) {
	n := noteOf(texts[0])
	if n.Item == "" || n.Origin != w.m.origin {
		for _, p := range texts {
			if p.Text != "" {
				w.add(object{"role": "assistant", "content": p.Text})
			}
		}
		return
	}
	var parts []object
	for _, p := range texts {
		if n.Refusal {
			parts = append(parts, object{"type": "refusal", "refusal": p.Text})
		} else {
			parts = append(parts, object{"type": "output_text", "text": p.Text, "annotations": []object{}})
		}
	}
	message := object{"type": "message", "role": "assistant", "id": n.Item, "status": "completed", "content": parts}
	message.Opt("phase", n.Phase)
	w.add(message)
}

// reasoning sends a reasoning item back unchanged if the server can read it without
// having stored it: it is encrypted, or a compatible server sent its full text.
func (w *inputWriter) reasoning(p content.Part) {
	if p.Name != Provider || p.Reasoning == nil || !w.m.owns(p) {
		return
	}
	if item, ok := returnable(p.Reasoning.Encrypted, !w.m.own); ok {
		w.add(item)
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
	call := object{"type": "function_call", "call_id": w.ids[p.Call.ID], "name": p.Call.Name, "arguments": argumentsOf(*p.Call)}
	if n := noteOf(p); n.Origin == w.m.origin {
		call.Opt("id", n.Item)
	}
	w.add(call)
}

func (w *inputWriter) results(it content.Item) {
	for _, r := range it.Results() {
		if w.known[r.CallID] { // otherwise the call was compacted
			w.add(object{"type": "function_call_output", "call_id": w.ids[r.CallID], "output": readable(resultPieces(Responses, r))})
		}
	}
}
