package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// viewable reports whether a model can view a kind of content directly.
func viewable(kind string) bool {
	switch m := content.Modality(kind); m {
	case "image", "audio", "video":
		return kind != "image/svg+xml" // SVG is text
	}
	return kind == "application/pdf"
}

// attach attaches a body to the result. begun is the part already read.
func (f *fetcher) attach(ctx context.Context, c tool.Call, resp *http.Response, kind string, begun []byte) (tool.Output, error) {
	name := path.Base(resp.Request.URL.Path)
	if name == "/" || name == "." {
		name = resp.Request.URL.Hostname()
	}
	part, err := c.Attach(ctx, name, kind, io.MultiReader(bytes.NewReader(begun), resp.Body))
	if err != nil {
		return tool.Output{}, err
	}
	head := fmt.Sprintf("%s; %s; %s; %d bytes; attached", resp.Status, resp.Request.URL.Redacted(), kind, part.Size())
	return tool.Output{Parts: []content.Part{content.TextPart(head), part}}, nil
}

// keep shows the beginning of a text longer than the limit and stores all of it. begun
// is the part already read.
func (f *fetcher) keep(ctx context.Context, c tool.Call, resp *http.Response, kind string, begun []byte, raw bool) (tool.Output, error) {
	whole := c.Spool(1)
	defer whole.Close()
	_, _ = whole.Write(begun) // never fails
	_, err := io.Copy(whole, resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return tool.Output{}, err //nolint:wrapcheck // explain wraps it
	}
	notes := []string{resp.Status, resp.Request.URL.Redacted(), kind, fmt.Sprintf("%d bytes", whole.Size())}
	if err != nil {
		notes[3] = fmt.Sprintf("the server broke off after %d bytes", whole.Size())
	}
	begun = begun[:f.opts.MaxBytes]
	text, note := readable(decoded(begun, kind, resp.Header.Get("Content-Type"), true), kind, raw, true)
	if note != "" {
		notes = append(notes, note)
	}
	shown, _ := c.Stash.Room()
	notes = append(notes, "its beginning follows")
	return tool.Output{Parts: []content.Part{whole.Showing(ctx, strings.Join(notes, "; ")+"\n\n"+beginning(text, shown))}}, nil
}

// beginning returns the first bytes of a text, in whole characters.
func beginning(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
