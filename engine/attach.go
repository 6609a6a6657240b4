package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model"
)

// MaxAttached bounds how many bytes of blobs a model sees in one call. The newest blobs that fit
// are sent. Providers do not accept larger requests.
const MaxAttached = 32 << 20

// Blobs reads the blobs that input refers to. It is safe for concurrent use.
type Blobs interface {
	// CopyTo writes the blob with that SHA-256, in hexadecimal, to w and verifies the sum
	// at the end. ok is false if there is no such blob.
	CopyTo(ctx context.Context, id string, w io.Writer) (ok bool, err error)
}

// codeBlobMissing is the code of the warning about a missing blob.
const codeBlobMissing = "blob_missing"

// attached remembers which items of a transcript have media, so a model call need not scan the whole
// transcript. This works because a transcript only grows, or is replaced by another one.
type attached struct {
	transcript []content.Item
	items      []int
}

// in returns the positions of the items of a transcript that have media.
func (a *attached) in(transcript []content.Item) []int {
	known := len(a.transcript)
	if known > len(transcript) || known > 0 && &a.transcript[0] != &transcript[0] {
		known, a.items = 0, nil
	}
	for i, it := range transcript[known:] {
		if it.Kind != content.Assistant && slices.ContainsFunc(it.Parts, hasMedia) {
			a.items = append(a.items, known+i)
		}
	}
	a.transcript = transcript
	return slices.Clip(a.items)
}

func hasMedia(p content.Part) bool {
	return p.Media != nil || p.Result != nil && slices.ContainsFunc(p.Result.Output, hasMedia)
}

// attachments replaces the references in a transcript with their blobs, for one model call. Input
// refers to blobs, and results refer to blobs that their workers stored: tool.Invoker rejects any
// other reference of a tool. References in a model's own output are not replaced, so no model can
// make the host read anything.
type attachments struct {
	blobs   Blobs
	items   []int // that may refer to blobs
	media   bool  // the model accepts more than text
	left    int64
	missing []events.Warning
}

// open returns the request with the blobs in place. If they cannot be read now it returns an
// error, and another attempt may succeed.
func (a *attachments) open(ctx context.Context, req model.Request, m model.Model) (model.Request, error) {
	a.media, a.left, a.missing = m.Capabilities().Media, MaxAttached, nil
	items, copied := req.Transcript, false
	for _, i := range slices.Backward(a.items) { // the newest first
		parts, missing, err := a.parts(ctx, items[i].Parts, items[i].Kind == content.Tool)
		if err != nil {
			return req, err
		}
		if parts == nil {
			continue
		}
		if !copied {
			items, copied = slices.Clone(items), true
		}
		items[i].Parts = parts
		if req.Round == 1 || fresh(items[i+1:]) {
			a.missing = append(a.missing, missing...)
		}
	}
	req.Transcript = items
	return req, nil
}

// fresh reports whether an item before these is new to the model.
func fresh(after []content.Item) bool {
	return !slices.ContainsFunc(after, func(it content.Item) bool { return it.Kind == content.Assistant })
}

// parts returns the parts as the model sees them, or nil if nothing changes, and a warning for
// each missing blob. Only references change in a result.
func (a *attachments) parts(ctx context.Context, parts []content.Part, result bool) (shown []content.Part, missing []events.Warning, err error) {
	for i := len(parts) - 1; i >= 0; i-- {
		p := parts[i]
		switch {
		case p.Result != nil:
			output, more, err := a.parts(ctx, p.Result.Output, true)
			if err != nil {
				return nil, nil, err
			}
			if output == nil {
				continue
			}
			r := *p.Result
			r.Output = output
			p.Result, missing = &r, append(missing, more...)
		case refers(p), !result && !a.media && p.Media != nil && len(p.Media.Bytes) > 0:
			var lost bool
			if p, lost, err = a.part(ctx, p); err != nil {
				return nil, nil, err
			}
			if lost {
				missing = append(missing, events.Warning{Code: codeBlobMissing, Message: p.Text})
			}
		default:
			continue
		}
		if shown == nil { // most lists do not change and are not copied
			shown = slices.Clone(parts)
		}
		shown[i] = p
	}
	return shown, missing, nil
}

func refers(p content.Part) bool {
	if p.Media == nil || len(p.Media.Bytes) > 0 {
		return false
	}
	_, ref := content.BlobID(p.Media.URI)
	return ref
}

// part returns a part with media as the model sees it; missing: its blob is gone.
func (a *attachments) part(ctx context.Context, p content.Part) (shown content.Part, missing bool, err error) {
	id, ref := content.BlobID(p.Media.URI)
	switch {
	case len(p.Media.Bytes) > 0 && !a.media:
		return asText(p, p.Media.Bytes), false, nil
	case len(p.Media.Bytes) > 0 || !ref:
		return p, false, nil
	case !a.media && !content.Textual(p.Media.MIME):
		return notShown(p, textOnly), false, nil
	case p.Size() > a.left:
		return notShown(p, tooLarge), false, nil
	case a.blobs == nil:
		return notShown(p, gone), true, nil
	}
	w := bounded{left: a.left}
	w.buf.Grow(int(p.Size()))
	ok, err := a.blobs.CopyTo(ctx, id, &w)
	switch {
	case w.full:
		return notShown(p, tooLarge), false, nil
	case err != nil && ctx.Err() != nil:
		return p, false, context.Cause(ctx)
	case err != nil:
		return p, false, &model.Error{Class: content.ClassNetwork, Code: "blob_unread", Message: "attachment could not be read: " + err.Error()}
	case !ok:
		return notShown(p, gone), true, nil
	}
	a.left -= int64(w.buf.Len())
	if !a.media {
		return asText(p, w.buf.Bytes()), false, nil
	}
	m := *p.Media
	m.Bytes, m.URI, p.Media = w.buf.Bytes(), "", &m
	return p, false, nil
}

// Why an attachment is not shown.
const (
	gone     = "it is no longer stored"
	textOnly = "this model takes text only"
	tooLarge = "it is too large: at most 32 MiB are shown at a time, the newest first"
)

// asText shows a file to a model that accepts only text.
func asText(p content.Part, data []byte) content.Part {
	if !content.Textual(p.Media.MIME) || !utf8.Valid(data) {
		return notShown(p, textOnly)
	}
	return content.TextPart(fmt.Sprintf("\nFile %s:\n%s\n", cmp.Or(p.Name, "attached"), data))
}

// notShown replaces an attachment that the model cannot see.
func notShown(p content.Part, why string) content.Part {
	what := []string{cmp.Or(p.Name, "a file"), cmp.Or(p.Media.MIME, p.Media.Modality, "data")}
	if n := p.Size(); n > 0 {
		what = append(what, fmt.Sprintf("%d bytes", n))
	}
	return content.TextPart(fmt.Sprintf("[attached: %s; not shown: %s]", strings.Join(what, ", "), why))
}

// bounded is a buffer that accepts at most left more bytes, regardless of the declared size.
type bounded struct {
	buf  bytes.Buffer
	left int64
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		b.full = true
		return 0, io.ErrShortWrite
	}
	b.left -= int64(len(p))
	return b.buf.Write(p) //nolint:wrapcheck // never fails
}
