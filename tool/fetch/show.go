package fetch

import (
	"bytes"
	"context"
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

// show turns a response into output. The first line describes it; the model judges the
// status.
func (f *fetcher) show(ctx context.Context, c tool.Call, resp *http.Response, raw bool) (tool.Output, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, f.opts.MaxBytes+1))
	cut := int64(len(body)) > f.opts.MaxBytes
	if err == nil && len(body) > 0 && c.Stash != nil && resp.Header.Get("Content-Encoding") == "" {
		if kind := contentType(resp, body); viewable(kind) {
			return f.attach(ctx, c, resp, kind, body)
		} else if cut && textual(kind, body) {
			return f.keep(ctx, c, resp, kind, body, raw)
		}
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return tool.Output{}, err //nolint:wrapcheck // explain wraps it
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
	var text, note string
	if as := resp.Header.Get("Content-Encoding"); as != "" && len(body) > 0 { // Go removes the header when it decompresses
		note = "encoded as " + as + ", so it is not shown"
	} else {
		text, note = readable(decoded(body, kind, resp.Header.Get("Content-Type"), cut), kind, raw, cut)
	}
	if note != "" {
		notes = append(notes, note)
	}
	return tool.Text(strings.Join(notes, "; ") + "\n\n" + text), nil
}

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

// readable returns the body as text for a model, and a note on what was changed.
func readable(body []byte, kind string, raw, cut bool) (text, note string) {
	switch {
	case len(body) == 0:
		return "", ""
	case !textual(kind, body):
		return "", "not text, so it is not shown"
	case isJSON(kind) && !cut:
		var b bytes.Buffer
		if laidOut(body, 2*len(body)) && json.Indent(&b, body, "", " ") == nil && b.Len() < 2*len(body) {
			return b.String(), ""
		}
	case isHTML(kind) && !raw:
		return textOf(body), "shown without its markup"
	}
	return strings.ToValidUTF8(string(body), "\uFFFD"), ""
}

func isJSON(kind string) bool {
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

func isHTML(kind string) bool { return kind == "text/html" || kind == "application/xhtml+xml" }

// laidOut reports whether indented JSON fits in room. Deeply nested JSON could grow
// thousands of times.
func laidOut(body []byte, room int) bool {
	level, quoted := 0, false
	for i := 0; i < len(body) && room >= 0; i++ {
		room--
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
			room--
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			level++
			room -= level + 1
		case c == ']' || c == '}':
			level--
			room -= level + 1
		case c == ',':
			room -= level + 1
		}
	}
	return room >= 0
}

// textual reports whether a body is text, by its type and its content.
func textual(kind string, body []byte) bool {
	if bytes.IndexByte(body[:min(len(body), 8000)], 0) >= 0 {
		return false
	}
	return textKind(kind) || kind == "application/octet-stream" && utf8.Valid(body)
}

// textKind reports whether a content type is text.
func textKind(kind string) bool {
	known := []string{
		"application/xml", "application/xhtml+xml", "application/javascript", "application/ecmascript", "application/yaml",
		"application/toml", "application/x-ndjson", "application/sql", "application/x-sh",
	}
	return strings.HasPrefix(kind, "text/") || isJSON(kind) || strings.HasSuffix(kind, "+xml") || slices.Contains(known, kind)
}
