package openai

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
)

// piece is part of a message, for both APIs. Exactly one group of fields is set.
type piece struct {
	text string

	image string // URL, often a data URL

	file     string // data URL
	fileURL  string
	fileName string

	audio       string // base64
	audioFormat string
}

func (p piece) isText() bool { return p == piece{text: p.text} }

// chat returns the piece as part of a message of Chat.
func (p piece) chat() object {
	switch {
	case p.image != "":
		return object{"type": "image_url", "image_url": object{"url": p.image}}
	case p.audio != "":
		return object{"type": "input_audio", "input_audio": object{"data": p.audio, "format": p.audioFormat}}
	case p.file != "":
		return object{"type": "file", "file": object{"file_data": p.file, "filename": p.fileName}}
	}
	return object{"type": "text", "text": p.text}
}

// responses returns the piece as part of a message or result of Responses.
func (p piece) responses() object {
	switch {
	case p.image != "":
		return object{"type": "input_image", "image_url": p.image, "detail": "auto"}
	case p.fileURL != "":
		return object{"type": "input_file", "file_url": p.fileURL}
	case p.file != "":
		return object{"type": "input_file", "file_data": p.file, "filename": p.fileName}
	}
	return object{"type": "input_text", "text": p.text}
}

// pieces converts parts. Placeholders replace what the API does not accept.
func pieces(api API, parts []content.Part) []piece {
	var all []piece
	for _, p := range parts {
		switch p.Kind {
		case content.TextKind:
			all = append(all, piece{text: p.Text})
		case content.StructuredKind:
			all = append(all, piece{text: string(p.Data)})
		case content.MediaKind, content.FileKind:
			if p.Media != nil {
				all = append(all, mediaPiece(api, p))
			}
		case content.ToolResultKind:
			if p.Result != nil {
				all = append(all, resultPieces(api, *p.Result)...)
			}
		case content.ReasoningKind, content.ToolCallKind, content.CustomKind:
		}
	}
	return all
}

// resultPieces converts the output of a result. The APIs have no field for errors, so
// the text of one begins with "Error".
func resultPieces(api API, r content.ToolResult) []piece {
	all := pieces(api, r.Output)
	if !r.IsError {
		return all
	}
	if len(all) > 0 && all[0].isText() {
		if !strings.HasPrefix(strings.ToLower(all[0].text), "error") {
			all[0].text = "Error: " + all[0].text
		}
		return all
	}
	return append([]piece{{text: "Error: " + string(r.Status)}}, all...)
}

func mediaPiece(api API, p content.Part) piece {
	m := *p.Media
	mediaType := content.MediaType(m.MIME)
	major, minor, _ := strings.Cut(mediaType, "/")
	switch {
	case len(m.Bytes) == 0 && m.URI == "":
		return placeholder(p)
	case m.Modality == "image" || m.Modality == "" && major == "image":
		return piece{image: urlOf(m, "image/png")}
	case m.Modality == "audio" || m.Modality == "" && major == "audio":
		return audioPiece(api, m, minor)
	case m.Modality == "video" || major == "video":
		return placeholder(p)
	case len(m.Bytes) > 0 && content.Textual(mediaType) && utf8.Valid(m.Bytes):
		return piece{text: fmt.Sprintf("File %s:\n%s", nameOf(p, minor), m.Bytes)}
	case len(m.Bytes) > 0:
		return piece{file: urlOf(m, "application/octet-stream"), fileName: nameOf(p, minor)}
	case strings.HasPrefix(m.URI, "data:"):
		return piece{file: m.URI, fileName: nameOf(p, minor)}
	case api == Responses && m.URI != "":
		return piece{fileURL: m.URI}
	}
	return placeholder(p)
}

// audioPiece converts audio. Only Chat accepts it, in two formats.
func audioPiece(api API, m content.Media, minor string) piece {
	format := map[string]string{
		"wav": "wav", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav", "mpeg": "mp3", "mp3": "mp3",
	}[minor]
	if api != Chat || len(m.Bytes) == 0 || format == "" {
		return placeholder(content.Part{Kind: content.MediaKind, Media: &m})
	}
	return piece{audio: base64.StdEncoding.EncodeToString(m.Bytes), audioFormat: format}
}

func placeholder(p content.Part) piece { return piece{text: provider.Placeholder(p)} }

func urlOf(m content.Media, unknown string) string {
	if len(m.Bytes) == 0 {
		return m.URI
	}
	return "data:" + cmp.Or(m.MIME, unknown) + ";base64," + base64.StdEncoding.EncodeToString(m.Bytes)
}

// nameOf returns the name of a file, which the APIs require.
func nameOf(p content.Part, minor string) string {
	if p.Name != "" {
		return p.Name
	}
	if uri := p.Media.URI; uri != "" && !strings.HasPrefix(uri, "data:") {
		return path.Base(uri)
	}
	if minor == "pdf" {
		return "document.pdf"
	}
	return "file"
}

// textOf joins pieces of text. It reports false if one is something else.
func textOf(all []piece, sep string) (string, bool) {
	texts := make([]string, len(all))
	for i, p := range all {
		if !p.isText() {
			return "", false
		}
		texts[i] = p.text
	}
	return strings.Join(texts, sep), true
}

// inputPieces converts an item that the model reads.
func inputPieces(api API, it content.Item) []piece {
	if it.Kind != content.Notification {
		return pieces(api, it.Parts)
	}
	// The text states the outcome already, so only the media of the result are added.
	isResult := func(p content.Part) bool { return p.Kind == content.ToolResultKind }
	rest := slices.DeleteFunc(slices.Clone(it.Parts), isResult)
	all := append([]piece{{text: "<notification>\n"}}, pieces(api, rest)...)
	for _, r := range it.Results() {
		all = append(all, slices.DeleteFunc(pieces(api, r.Output), piece.isText)...)
	}
	return append(all, piece{text: "\n</notification>"})
}
