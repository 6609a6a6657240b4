package anthropic

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
)

// media returns the block of an image or a document, inline or by URL, or a
// placeholder for what the model cannot take.
func media(k content.Kind, p content.Part) []sdk.BetaContentBlockParamUnion {
	if p.Media == nil {
		return nil
	}
	if k != content.System && k != content.Developer && k != content.Assistant { // those take only text
		if b, ok := mediaBlock(p.Name, p.Media); ok {
			return one(b)
		}
	}
	return text(tagged(k, provider.Placeholder(p)))
}

func mediaBlock(name string, m *content.Media) (sdk.BetaContentBlockParamUnion, bool) {
	web := strings.HasPrefix(m.URI, "https://") || strings.HasPrefix(m.URI, "http://")
	inline := len(m.Bytes) > 0
	mime := provider.MediaType(m.MIME)
	switch {
	case inline && oneOf(mime, "image/jpeg", "image/png", "image/gif", "image/webp"):
		return sdk.NewBetaImageBlock(sdk.BetaBase64ImageSourceParam{
			Data: base64.StdEncoding.EncodeToString(m.Bytes), MediaType: sdk.BetaBase64ImageSourceMediaType(mime),
		}), true
	case inline && mime == "application/pdf":
		return document(name, sdk.NewBetaDocumentBlock(sdk.BetaBase64PDFSourceParam{
			Data: base64.StdEncoding.EncodeToString(m.Bytes),
		})), true
	case inline && provider.IsText(mime) && utf8.Valid(m.Bytes):
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
