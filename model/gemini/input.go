package gemini

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
)

// input converts the parts of an item that the model reads.
func input(parts []content.Part) []any {
	var all []any
	for _, p := range parts {
		if o := given(p); o != nil {
			all = append(all, o)
		}
	}
	return all
}

// given converts one part. It returns nil for an empty one.
func given(p content.Part) object {
	if p.Media != nil {
		return media(p)
	}
	if text := textOf(p); text != "" {
		return object{"text": text}
	}
	return nil
}

func textOf(p content.Part) string {
	switch p.Kind {
	case content.TextKind:
		return p.Text
	case content.StructuredKind:
		return string(p.Data)
	case content.ToolResultKind:
		if p.Result != nil { // in a notification
			return p.Result.Text()
		}
	case content.MediaKind, content.FileKind, content.ReasoningKind, content.ToolCallKind, content.CustomKind:
	}
	return ""
}

// media converts an image, audio, video or document. Text or a placeholder replaces media that the
// model does not accept.
func media(p content.Part) object {
	m := p.Media
	mime := content.MediaType(m.MIME)
	switch inline := len(m.Bytes) > 0; {
	case inline && content.Textual(mime) && utf8.Valid(m.Bytes):
		return object{"text": heading(p.Name) + string(m.Bytes)}
	case inline && takes(mime):
		return object{"inlineData": object{"mimeType": mime, "data": m.Bytes}}
	case !inline && m.URI != "" && takes(mime):
		return object{"fileData": object{"mimeType": mime, "fileUri": m.URI}}
	}
	return object{"text": provider.Placeholder(p)}
}

// takes reports whether the API accepts media of the type.
func takes(mime string) bool {
	switch mime {
	case "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf", "text/plain":
		return true
	}
	return strings.HasPrefix(mime, "audio/") || strings.HasPrefix(mime, "video/")
}

// heading introduces the text of a named file.
func heading(name string) string {
	if name == "" {
		return ""
	}
	return name + ":\n"
}

// results adds the results of calls to the current message of results, or to a new one.
func (t *transcript) results(it content.Item) {
	var parts []any
	for _, r := range it.Results() {
		parts = append(parts, t.result(r)...)
	}
	if t.answering && len(parts) > 0 {
		last := &t.messages[len(t.messages)-1]
		last.Parts = append(last.Parts, parts...)
		slices.SortStableFunc(last.Parts, responsesFirst)
		return
	}
	t.say("user", parts)
	t.answering = len(parts) > 0
}

// responsesFirst puts the results of a message before its media, as the API requires.
func responsesFirst(a, b any) int {
	rank := func(part any) int {
		if o, _ := part.(object); o["functionResponse"] != nil {
			return 0
		}
		return 1
	}
	return rank(a) - rank(b)
}

// result converts one result: its text becomes an object, and its media go into the
// result or after it.
func (t *transcript) result(r content.ToolResult) []any {
	c, known := t.calls[r.CallID]
	if !known { // it is no longer in the transcript
		c = content.ToolCall{ProviderID: string(r.CallID), Name: r.Name}
	}
	response := object{"name": c.Name, "response": words(r)}
	response.Opt("id", c.ProviderID)
	parts := []any{object{"functionResponse": response}}
	var inside []object
	for _, p := range r.Output {
		if p.Media == nil {
			continue
		}
		if o := media(p); t.old || o["text"] != nil {
			parts = append(parts, o)
		} else {
			inside = append(inside, o)
		}
	}
	response.Opt("parts", inside)
	return parts
}

func words(r content.ToolResult) object {
	var value any = r.Text()
	if len(r.Output) == 1 && r.Output[0].Kind == content.StructuredKind && json.Valid(r.Output[0].Data) {
		value = r.Output[0].Data
	}
	if r.IsError {
		return object{"error": value}
	}
	return object{"output": value}
}
