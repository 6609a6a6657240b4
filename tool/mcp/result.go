package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// result converts the result of a tool. It omits text that repeats the structured content.
func result(r *sdk.CallToolResult) (tool.Output, error) {
	if r.IsError {
		return tool.Output{}, tool.Failure(tool.CodeFailed, "%s", problem(r))
	}
	var out tool.Output
	var whole string            // digest of the structured content
	within := map[string]bool{} // the texts in it
	if r.StructuredContent != nil {
		raw, err := json.Marshal(r.StructuredContent)
		if err != nil {
			return out, fmt.Errorf("structured content: %w", err)
		}
		whole = tool.Digest(raw)
		collect(r.StructuredContent, within)
		out.Parts = append(out.Parts, content.StructuredPart(raw))
	}
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok && whole != "" &&
			(within[t.Text] || json.Valid([]byte(t.Text)) && tool.Digest(json.RawMessage(t.Text)) == whole) {
			continue
		}
		out.Parts = append(out.Parts, part(c))
	}
	return out, nil
}

// problem returns the text of a result that is an error.
func problem(r *sdk.CallToolResult) string {
	var lines []string
	for _, c := range r.Content {
		if p := part(c); p.Text != "" {
			lines = append(lines, p.Text)
		}
	}
	if len(lines) == 0 {
		return "the server gives no reason"
	}
	return strings.Join(lines, "\n")
}

// collect adds the texts in a value.
func collect(v any, texts map[string]bool) {
	switch v := v.(type) {
	case string:
		texts[v] = true
	case []any:
		for _, e := range v {
			collect(e, texts)
		}
	case map[string]any:
		for _, e := range v {
			collect(e, texts)
		}
	}
}

// part converts one piece of content.
func part(c sdk.Content) content.Part {
	switch c := c.(type) {
	case *sdk.TextContent:
		return content.TextPart(c.Text)
	case *sdk.ImageContent:
		return media("image", c.MIMEType, c.Data, "")
	case *sdk.AudioContent:
		return media("audio", c.MIMEType, c.Data, "")
	case *sdk.ResourceLink:
		return linked(c)
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return content.TextPart("[an empty resource]")
		}
		return resource(c.Resource)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return content.TextPart("[content that cannot be shown]")
	}
	return content.StructuredPart(raw)
}

// resource converts the content of a resource. Its URI is in the metadata, or for media
// in the part's name.
func resource(r *sdk.ResourceContents) content.Part {
	if len(r.Blob) == 0 {
		p := content.TextPart(r.Text)
		p.Metadata = p.Metadata.With("uri", r.URI)
		return p
	}
	kind, _, _ := strings.Cut(r.MIMEType, "/")
	switch kind {
	case "image", "audio", "video":
	default:
		kind = "document"
	}
	return media(kind, r.MIMEType, r.Blob, r.URI)
}

func media(modality, mime string, data []byte, name string) content.Part {
	p := content.Part{Kind: content.MediaKind, Name: name, Media: &content.Media{Modality: modality, MIME: mime, Bytes: data}}
	if modality == "document" {
		p.Kind = content.FileKind
	}
	return p
}

// linked converts a link to text: only its server, not a model provider, can resolve the
// URI.
func linked(c *sdk.ResourceLink) content.Part {
	text := "[resource " + c.URI
	if c.Name != "" {
		text += " " + c.Name
	}
	if c.MIMEType != "" {
		text += " (" + c.MIMEType + ")"
	}
	if c.Description != "" {
		text += ": " + c.Description
	}
	p := content.TextPart(text + "]")
	p.Metadata = p.Metadata.With("uri", c.URI)
	return p
}
