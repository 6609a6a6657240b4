package fetch

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/turnlog/turnlog/content"
)

// contentType returns the type that the server states, or detects it.
func contentType(resp *http.Response, body []byte) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err == nil {
		return kind
	}
	if len(body) == 0 {
		return ""
	}
	kind, _, _ = mime.ParseMediaType(http.DetectContentType(body))
	return kind
}

// readable returns the body as text for a model, and a note on the changes.
func readable(body []byte, kind string, raw bool) (text, note string) {
	switch {
	case len(body) == 0:
		return "", ""
	case !textual(kind, body):
		return "", "not text, so it is not shown"
	case isHTML(kind) && !raw:
		return textOf(body), "shown without its markup"
	}
	return strings.ToValidUTF8(string(body), "\uFFFD"), ""
}

func isHTML(kind string) bool { return kind == "text/html" || kind == "application/xhtml+xml" }

// textual reports whether a body is text, by its type and its content.
func textual(kind string, body []byte) bool {
	if bytes.IndexByte(body[:min(len(body), 8000)], 0) >= 0 {
		return false
	}
	return content.Textual(kind) || kind == "application/octet-stream" && utf8.Valid(body)
}

// viewable reports whether a model can view a kind of content directly.
func viewable(kind string) bool {
	switch m := content.Modality(kind); m {
	case "image", "audio", "video":
		return kind != "image/svg+xml" // SVG is text
	}
	return kind == "application/pdf"
}

// decoded converts text to UTF-8. The charset is that of the byte order mark, or else the one that the
// server states, or else, for HTML, the one that the page states or that browsers assume. Other
// content is returned unchanged.
func decoded(body []byte, kind, header string, cut bool) []byte {
	if !content.Textual(kind) {
		return body
	}
	look := body[:min(len(body), utf8.UTFMax)] // room for a byte order mark
	if isHTML(kind) {
		look = body
	}
	from, _, certain := charset.DetermineEncoding(look, header)
	if certain || isHTML(kind) && !valid(body, cut) {
		if text, err := from.NewDecoder().Bytes(body); err == nil {
			body = text
		}
	}
	return bytes.TrimPrefix(body, []byte("\uFEFF"))
}

// valid reports whether a body is UTF-8, except for a last character that was cut.
func valid(body []byte, cut bool) bool {
	for n := 1; cut && n < min(len(body), utf8.UTFMax); n++ {
		if utf8.Valid(body[:len(body)-n]) {
			return true
		}
	}
	return utf8.Valid(body)
}
