package gemini

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/genai"

	"github.com/turnlog/turnlog/content"
)

// input writes the parts of what a model is told.
func input(parts []content.Part) []*genai.Part {
	var all []*genai.Part
	for _, p := range parts {
		if part := given(p); part != nil {
			all = append(all, part)
		}
	}
	return all
}

// given writes one part; nil if there is nothing in it.
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

// textOf is what a part says in words.
func textOf(p content.Part) string {
	switch p.Kind {
	case content.TextKind:
		return p.Text
	case content.StructuredKind:
		return string(p.Data)
	case content.ToolResultKind:
		if p.Result != nil { // what a notification tells of
			return p.Result.Text()
		}
	case content.MediaKind, content.FileKind, content.ReasoningKind, content.ToolCallKind, content.CustomKind:
	}
	return ""
}

// media writes an image, a sound, a film or a document. What the model cannot take it
// is told of in words: a part that fails every call would end the session.
func media(p content.Part) *genai.Part {
	m := p.Media
	mime, _, _ := strings.Cut(strings.ToLower(m.MIME), ";")
	switch inline := len(m.Bytes) > 0; {
	case inline && textual(mime) && utf8.Valid(m.Bytes):
		return genai.NewPartFromText(heading(p.Name) + string(m.Bytes))
	case inline && takes(mime):
		return genai.NewPartFromBytes(m.Bytes, mime)
	case !inline && m.URI != "" && takes(mime):
		return genai.NewPartFromURI(m.URI, mime)
	}
	return genai.NewPartFromText(notShown(p))
}

// takes reports whether the provider takes media of that type.
func takes(mime string) bool {
	switch mime {
	case "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf", "text/plain":
		return true
	}
	return strings.HasPrefix(mime, "audio/") || strings.HasPrefix(mime, "video/")
}

// textual reports whether bytes of that type can be read as they are.
func textual(mime string) bool {
	switch mime {
	case "application/json", "application/xml", "application/yaml":
		return true
	}
	return strings.HasPrefix(mime, "text/")
}

// heading says from which file a text is.
func heading(name string) string {
	if name == "" {
		return ""
	}
	return name + ":\n"
}

// notShown says what stands where the model sees nothing.
func notShown(p content.Part) string {
	what := cmp.Or(p.Media.MIME, p.Media.Modality, "data")
	if p.Name != "" {
		what = p.Name + ", " + what
	}
	if p.Media.URI != "" {
		return fmt.Sprintf("[%s at %s, which cannot be shown here]", what, p.Media.URI)
	}
	return fmt.Sprintf("[%s, %d bytes, which cannot be shown here]", what, len(p.Media.Bytes))
}

// modality is the kind of media that a MIME type is of.
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

// results writes the results of calls. Those that follow each other are one message.
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

// responsesFirst orders a message: the provider wants its results side by side.
func responsesFirst(a, b *genai.Part) int {
	rank := func(p *genai.Part) int {
		if p.FunctionResponse != nil {
			return 0
		}
		return 1
	}
	return rank(a) - rank(b)
}

// result writes one result: its words as an object, and its media within or behind.
func (t *transcript) result(r content.ToolResult) []*genai.Part {
	response := &genai.FunctionResponse{ID: t.wireID(r.CallID), Name: t.nameOf(r), Response: words(r)}
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
		response.Parts = append(response.Parts, within(part))
	}
	return parts
}

// within makes a part one of a result.
func within(p *genai.Part) *genai.FunctionResponsePart {
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

// wireID is the id that the call had on the wire; "" if it had none.
func (t *transcript) wireID(id content.CallID) string {
	for _, c := range t.calls {
		if c.ID == id {
			return c.ProviderID
		}
	}
	return string(id)
}

func (t *transcript) nameOf(r content.ToolResult) string {
	for _, c := range t.calls {
		if c.ID == r.CallID {
			return c.Name
		}
	}
	return r.Name
}
