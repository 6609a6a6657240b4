package anthropic

import (
	"strings"
	"unicode/utf8"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
)

// media returns the block of an image or a document, inline or by URL, or a placeholder if the model
// does not accept it.
func media(k content.Kind, p content.Part) []any {
	if p.Media == nil {
		return nil
	}
	if k != content.System && k != content.Developer && k != content.Assistant { // these accept only text
		if kind, source := mediaSource(p.Media); source != nil {
			b := object{"type": kind, "source": source}
			if kind == "document" {
				b.Opt("title", p.Name)
			}
			return []any{b}
		}
	}
	return text(tagged(k, provider.Placeholder(p)))
}

func mediaSource(m *content.Media) (kind string, source object) {
	web := strings.HasPrefix(m.URI, "https://") || strings.HasPrefix(m.URI, "http://")
	inline := len(m.Bytes) > 0
	mime := content.MediaType(m.MIME)
	switch {
	case inline && oneOf(mime, "image/jpeg", "image/png", "image/gif", "image/webp"):
		return "image", object{"type": "base64", "media_type": mime, "data": m.Bytes}
	case inline && mime == "application/pdf":
		return "document", object{"type": "base64", "media_type": mime, "data": m.Bytes}
	case inline && content.Textual(mime) && utf8.Valid(m.Bytes):
		return "document", object{"type": "text", "media_type": "text/plain", "data": string(m.Bytes)}
	case inline:
	case web && (strings.HasPrefix(mime, "image/") || m.Modality == "image"):
		return "image", object{"type": "url", "url": m.URI}
	case web && (mime == "application/pdf" || mime == "" && m.Modality == "document"):
		return "document", object{"type": "url", "url": m.URI}
	}
	return "", nil
}
