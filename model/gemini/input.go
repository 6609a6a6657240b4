package gemini

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/genai"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
)

// input converts the parts of an item that the model reads.
func input(parts []content.Part) []*genai.Part {
	var all []*genai.Part
	for _, p := range parts {
		if part := given(p); part != nil {
			all = append(all, part)
		}
	}
	return all
}

// given converts one part. It returns nil for an empty one.
func given(p content.Part) *genai.Part {
	if p.Media != nil {
		return media(p)
	}
	text := textOf(p)
	if text == "" {
		return nil
	}
	return genai.NewPartFromText(text)
}

// textOf returns the text of a part.
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

// media converts an image, audio, video or document. Text or a placeholder replaces
// what the model cannot take.
func media(p content.Part) *genai.Part {
	m := p.Media
	mime := provider.MediaType(m.MIME)
	switch inline := len(m.Bytes) > 0; {
	case inline && provider.IsText(mime) && utf8.Valid(m.Bytes):
		return genai.NewPartFromText(heading(p.Name) + string(m.Bytes))
	case inline && takes(mime):
		return genai.NewPartFromBytes(m.Bytes, mime)
	case !inline && m.URI != "" && takes(mime):
		return genai.NewPartFromURI(m.URI, mime)
	}
	return genai.NewPartFromText(provider.Placeholder(p))
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

// modality returns the modality of a MIME type.
func modality(mime string) string {
	switch kind, _, _ := strings.Cut(mime, "/"); kind {
	case "image", "audio", "video":
		return kind
	case "text":
		return "document"
	}
	if mime == "application/pdf" {
		return "document"
	}
	return "binary"
}

// results adds the results of calls to the current message of results, or to a new one.
func (t *transcript) results(it content.Item) {
	var parts []*genai.Part
	for _, r := range it.Results() {
		parts = append(parts, t.result(r)...)
	}
	if t.answering && len(parts) > 0 {
		last := t.contents[len(t.contents)-1]
		last.Parts = append(last.Parts, parts...)
		slices.SortStableFunc(last.Parts, responsesFirst)
		return
	}
	t.say(genai.RoleUser, parts)
	t.answering = len(parts) > 0
}

// responsesFirst puts the results of a message before its media, as the API requires.
func responsesFirst(a, b *genai.Part) int {
	rank := func(p *genai.Part) int {
		if p.FunctionResponse != nil {
			return 0
		}
		return 1
	}
	return rank(a) - rank(b)
}

// result converts one result: its text becomes an object, and its media go into the
// result or after it.
func (t *transcript) result(r content.ToolResult) []*genai.Part {
	c, known := t.calls[r.CallID]
	if !known { // it is no longer in the transcript
		c = content.ToolCall{ProviderID: string(r.CallID), Name: r.Name}
	}
	response := &genai.FunctionResponse{ID: c.ProviderID, Name: c.Name, Response: words(r)}
	parts := []*genai.Part{{FunctionResponse: response}}
	for _, p := range r.Output {
		if p.Media == nil {
			continue
		}
		part := media(p)
		if t.old || part.Text != "" {
			parts = append(parts, part)
			continue
		}
		response.Parts = append(response.Parts, resultPart(part))
	}
	return parts
}

// resultPart converts a media part to one inside a result.
func resultPart(p *genai.Part) *genai.FunctionResponsePart {
	if p.InlineData != nil {
		return genai.NewFunctionResponsePartFromBytes(p.InlineData.Data, p.InlineData.MIMEType)
	}
	return genai.NewFunctionResponsePartFromURI(p.FileData.FileURI, p.FileData.MIMEType)
}

func words(r content.ToolResult) map[string]any {
	var value any = r.Text()
	if len(r.Output) == 1 && r.Output[0].Kind == content.StructuredKind {
		var parsed any
		if json.Unmarshal(r.Output[0].Data, &parsed) == nil {
			value = parsed
		}
	}
	if r.IsError {
		return map[string]any{"error": value}
	}
	return map[string]any{"output": value}
}
