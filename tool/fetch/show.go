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

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// show turns a response into output. The first line describes it; the model judges the
// status. Where the host keeps long outputs, it keeps a text that is longer than the
// limit, and files that a model can view.
func (f *fetcher) show(ctx context.Context, c tool.Call, resp *http.Response, raw bool) (tool.Output, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, f.opts.MaxBytes+1))
	kind, size := contentType(resp, body), int64(len(body))
	cut := size > f.opts.MaxBytes
	encoding := resp.Header.Get("Content-Encoding") // Go removes the header when it decompresses
	keeps := err == nil && size > 0 && c.Stash != nil && encoding == ""
	if keeps && viewable(kind) {
		return f.attach(ctx, c, resp, kind, body)
	}
	var whole *tool.Spool
	if keeps && cut && textual(kind, body) {
		whole = c.Spool(1)
		defer whole.Close()
		_, err = io.Copy(whole, io.MultiReader(bytes.NewReader(body), resp.Body))
		size = whole.Size()
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return tool.Output{}, err //nolint:wrapcheck // explain wraps it
	}
	notes := []string{resp.Status, resp.Request.URL.Redacted()}
	if kind != "" {
		notes = append(notes, kind)
	}
	switch {
	case cut && whole == nil:
		notes = append(notes, fmt.Sprintf("only the first %d bytes were read", f.opts.MaxBytes))
	case err != nil:
		notes = append(notes, fmt.Sprintf("the server closed the connection after %d bytes", size))
	default:
		notes = append(notes, fmt.Sprintf("%d bytes", size))
	}
	if cut {
		body = body[:f.opts.MaxBytes]
	}
	text, note := "", "encoded as "+encoding+", so it is not shown"
	if encoding == "" || size == 0 {
		text, note = readable(decoded(body, kind, resp.Header.Get("Content-Type"), cut), kind, raw)
	}
	if note != "" {
		notes = append(notes, note)
	}
	if whole == nil {
		return tool.Text(strings.Join(notes, "; ") + "\n\n" + text), nil
	}
	notes = append(notes, "its beginning follows")
	shown, _ := c.Stash.Room()
	return tool.Output{Parts: []content.Part{whole.Showing(ctx, strings.Join(notes, "; ")+"\n\n"+content.Cut(text, shown))}}, nil
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
