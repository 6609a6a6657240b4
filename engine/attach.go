package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model"
)

// MaxAttached bounds how many bytes of blobs a model is shown in one call: the newest
// ones that fit. Providers take no larger requests.
const MaxAttached = 32 << 20

// Blobs are the bytes that input refers to. It is safe for concurrent use.
type Blobs interface {
	// CopyTo writes what is kept under a SHA-256, in hexadecimal, to w, and has checked
	// at the end that it is that; ok is false if there is nothing.
	CopyTo(ctx context.Context, id string, w io.Writer) (ok bool, err error)
}

// codeBlobMissing is the code of the warning that a blob is not there.
const codeBlobMissing = "blob_missing"

// attachments puts what a transcript refers to in the place of the references, for one
// model call. Input refers to blobs, and results to what their workers kept of them: a
// tool.Invoker lets no other reference of a tool's through. What models wrote stays as it
// is, so that none can have the host read anything.
type attachments struct {
	blobs   Blobs
	media   bool // whether the model takes anything but text
	left    int64
	missing []events.Warning
}

// open returns the request with what its transcript refers to. It returns an error, which
// another attempt may not see, if the blobs cannot be read now.
func (a *attachments) open(ctx context.Context, req model.Request, m model.Model) (model.Request, error) {
	a.media, a.left, a.missing = m.Capabilities().Media, MaxAttached, nil
	items := req.Transcript
	copied := false
	for i := len(items) - 1; i >= 0; i-- { // the newest first
		it := &req.Transcript[i]
		if !a.concerns(it) {
			continue
		}
		if !copied {
			items, copied = content.CloneItems(items), true
		}
		missing, err := a.parts(ctx, items[i].Parts, it.Kind == content.Tool)
		if err != nil {
			return req, err
		}
		if req.Round == 1 || fresh(items[i+1:]) {
			a.missing = append(a.missing, missing...)
		}
	}
	req.Transcript = items
	return req, nil
}

// fresh reports whether an item in front of these is new to the model.
func fresh(after []content.Item) bool {
	return !slices.ContainsFunc(after, func(it content.Item) bool { return it.Kind == content.Assistant })
}

// parts puts what parts refer to in their place, the last first, and says what is not
// there. Of the parts of a result nothing but references is touched.
func (a *attachments) parts(ctx context.Context, parts []content.Part, result bool) (missing []events.Warning, err error) {
	for i := len(parts) - 1; i >= 0; i-- {
		p := &parts[i]
		switch {
		case p.Result != nil && refer(p.Result.Output):
			r := *p.Result
			r.Output = slices.Clone(r.Output)
			more, err := a.parts(ctx, r.Output, true)
			if err != nil {
				return nil, err
			}
			p.Result, missing = &r, append(missing, more...)
		case p.Result == nil && (!result || refers(p)):
			shown, lost, err := a.part(ctx, *p)
			if err != nil {
				return nil, err
			}
			if lost {
				missing = append(missing, events.Warning{Code: codeBlobMissing, Message: shown.Text})
			}
			*p = shown
		}
	}
	return missing, nil
}

// refer reports whether any of the parts refers to a blob.
func refer(parts []content.Part) bool {
	for i := range parts { // nearly all do not, and none is copied
		if refers(&parts[i]) {
			return true
		}
	}
	return false
}

func refers(p *content.Part) bool {
	if p.Media == nil || len(p.Media.Bytes) > 0 {
		return false
	}
	_, ref := content.BlobID(p.Media.URI)
	return ref
}

func (a *attachments) concerns(it *content.Item) bool {
	if it.Kind == content.Assistant {
		return false
	}
	for i := range it.Parts {
		p := &it.Parts[i]
		switch {
		case p.Result != nil && refer(p.Result.Output):
			return true
		case p.Result != nil, it.Kind == content.Tool:
		case refers(p), !a.media && p.Media != nil && len(p.Media.Bytes) > 0:
			return true
		}
	}
	return false
}

// part is what the model is shown of a part; missing: its blob is not there.
func (a *attachments) part(ctx context.Context, p content.Part) (shown content.Part, missing bool, err error) {
	if p.Media == nil {
		return p, false, nil
	}
	id, ref := content.BlobID(p.Media.URI)
	readable := a.media || content.Textual(p.Media.MIME)
	switch {
	case len(p.Media.Bytes) > 0 && !a.media:
		return asText(p, p.Media.Bytes), false, nil
	case len(p.Media.Bytes) > 0 || !ref:
		return p, false, nil
	case !readable:
		return notShown(p, "this model takes text only"), false, nil
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
		return p, false, &model.Error{Class: content.ClassNetwork, Code: "blob_unread", Message: "what is attached could not be read: " + err.Error()}
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

// Why something that is attached is not shown.
const (
	gone     = "it is not kept any more"
	tooLarge = "it is too large, for at most 32 MiB are shown at a time, the newest first"
)

// asText shows a file to a model that takes nothing but text.
func asText(p content.Part, data []byte) content.Part {
	if !content.Textual(p.Media.MIME) || !utf8.Valid(data) {
		return notShown(p, "this model takes text only")
	}
	return content.TextPart(fmt.Sprintf("\nFile %s:\n%s\n", cmp.Or(p.Name, "attached"), data))
}

// notShown stands where a model sees nothing of a file.
func notShown(p content.Part, why string) content.Part {
	what := []string{cmp.Or(p.Name, "a file"), cmp.Or(p.Media.MIME, p.Media.Modality, "data")}
	if n := p.Size(); n > 0 {
		what = append(what, fmt.Sprintf("%d bytes", n))
	}
	return content.TextPart(fmt.Sprintf("[attached: %s; not shown: %s]", strings.Join(what, ", "), why))
}

// errFull stops a writer that exceeds its bound.
var errFull = errors.New("there is no room for more")

// bounded takes so many bytes and no more, whatever was said of their number.
type bounded struct {
	buf  bytes.Buffer
	left int64
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		b.full = true
		return 0, errFull
	}
	b.left -= int64(len(p))
	return b.buf.Write(p) //nolint:wrapcheck // never fails
}
