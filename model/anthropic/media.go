package anthropic

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnlog/turnlog/content"
)

// media writes an image or a document, inline or by address. What the model cannot
// take it is told of in text: a part that fails every call would end the session.
func media(k content.Kind, p content.Part) []sdk.BetaContentBlockParamUnion {
	m := p.Media
	if m == nil {
		return nil
	}
	if k != content.System && k != content.Developer && k != content.Assistant { // those are text only
		if b, ok := shown(p.Name, m); ok {
			return one(b)
		}
	}
	return text(tagged(k, notShown(p.Name, m)))
}

func shown(name string, m *content.Media) (sdk.BetaContentBlockParamUnion, bool) {
	web := strings.HasPrefix(m.URI, "https://") || strings.HasPrefix(m.URI, "http://")
	inline := len(m.Bytes) > 0
	mime, _, _ := strings.Cut(strings.ToLower(m.MIME), ";")
	switch {
	case inline && oneOf(mime, "image/jpeg", "image/png", "image/gif", "image/webp"):
		return sdk.NewBetaImageBlock(sdk.BetaBase64ImageSourceParam{
			Data: base64.StdEncoding.EncodeToString(m.Bytes), MediaType: sdk.BetaBase64ImageSourceMediaType(mime),
		}), true
	case inline && mime == "application/pdf":
		return document(name, sdk.NewBetaDocumentBlock(sdk.BetaBase64PDFSourceParam{
			Data: base64.StdEncoding.EncodeToString(m.Bytes),
		})), true
	case inline && isText(mime) && utf8.Valid(m.Bytes):
		return document(name, sdk.NewBetaDocumentBlock(sdk.BetaPlainTextSourceParam{Data: string(m.Bytes)})), true
	case inline:
	case web && (strings.HasPrefix(mime, "image/") || m.Modality == "image"):
		return sdk.NewBetaImageBlock(sdk.BetaURLImageSourceParam{URL: m.URI}), true
	case web && (mime == "application/pdf" || mime == "" && m.Modality == "document"):
		return document(name, sdk.NewBetaDocumentBlock(sdk.BetaURLPDFSourceParam{URL: m.URI})), true
	}
	return sdk.BetaContentBlockParamUnion{}, false
}

func document(title string, b sdk.BetaContentBlockParamUnion) sdk.BetaContentBlockParamUnion {
	if title != "" {
		b.OfDocument.Title = sdk.String(title)
	}
	return b
}

func isText(mime string) bool {
	return strings.HasPrefix(mime, "text/") || oneOf(mime, "application/json", "application/xml", "application/yaml")
}

// notShown says what stood where the model sees nothing.
func notShown(name string, m *content.Media) string {
	what := cmp.Or(m.MIME, m.Modality, "data")
	if name != "" {
		what = name + ", " + what
	}
	if m.URI != "" {
		return fmt.Sprintf("[%s at %s, which cannot be shown here]", what, m.URI)
	}
	return fmt.Sprintf("[%s, %d bytes, which cannot be shown here]", what, len(m.Bytes))
}
