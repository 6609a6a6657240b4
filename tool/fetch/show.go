package fetch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnlog/turnlog/tool"
)

// show makes an answer of a response. Its first line says what came; a status other
// than success is for the model to judge, as it is for who looks at a page.
func (f *fetcher) show(resp *http.Response, raw bool) (tool.Output, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, f.opts.MaxBytes+1))
	cut := int64(len(body)) > f.opts.MaxBytes
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return tool.Output{}, err //nolint:wrapcheck // explain does
	}
	notes := []string{resp.Status, resp.Request.URL.Redacted()}
	kind := contentType(resp, body)
	if kind != "" {
		notes = append(notes, kind)
	}
	switch {
	case cut:
		body = body[:f.opts.MaxBytes]
		notes = append(notes, fmt.Sprintf("only the first %d bytes were read", f.opts.MaxBytes))
	case err != nil:
		notes = append(notes, fmt.Sprintf("the server broke off after %d bytes", len(body)))
	default:
		notes = append(notes, fmt.Sprintf("%d bytes", len(body)))
	}
	text, note := readable(body, kind, raw, cut)
	if note != "" {
		notes = append(notes, note)
	}
	return tool.Text(strings.Join(notes, "; ") + "\n\n" + text), nil
}

// contentType is what the server says that the body is, or what it looks like.
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

// readable is the body as text for a model, and a note on what was done to it.
func readable(body []byte, kind string, raw, cut bool) (text, note string) {
	switch {
	case len(body) == 0:
		return "", ""
	case !textual(kind, body):
		return "", "not text, so it is not shown"
	case isJSON(kind) && !cut:
		var b bytes.Buffer
		if json.Indent(&b, body, "", " ") == nil && b.Len() < 2*len(body) {
			return b.String(), ""
		}
	case (kind == "text/html" || kind == "application/xhtml+xml") && !raw:
		return textOf(body), "shown without its markup"
	}
	return strings.ToValidUTF8(string(body), "\uFFFD"), ""
}

func isJSON(kind string) bool {
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

// textual reports whether a body is text: by its kind, and by what it holds.
func textual(kind string, body []byte) bool {
	if bytes.IndexByte(body[:min(len(body), 8000)], 0) >= 0 {
		return false
	}
	known := []string{
		"application/xml", "application/xhtml+xml", "application/javascript", "application/ecmascript", "application/yaml",
		"application/toml", "application/x-ndjson", "application/sql", "application/x-sh",
	}
	return strings.HasPrefix(kind, "text/") || isJSON(kind) || strings.HasSuffix(kind, "+xml") || slices.Contains(known, kind) ||
		kind == "application/octet-stream" && utf8.Valid(body)
}
