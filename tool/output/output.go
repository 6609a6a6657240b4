// Package output stores tool output that is too long for a conversation and lets
// models read it in pieces.
//
// Cutting output loses nothing. [Keep] is middleware around tools. If an output is longer
// than the limit, all of its text goes to a [Store], and the result has the beginning,
// the end, and how to read the rest with output_read, the tool that [NewReader] returns.
// Images and files that do not fit in a result go there too, and the result refers to
// them.
//
// Long output is not held in memory. A tool that reads its output from somewhere passes it
// on as it arrives, see [tool.Call.Spool] and [tool.Call.Attach].
//
// A store is addressed by content. The ID of a text is the digest of its bytes and of
// its session, so a session reads only its own outputs, and a repeated call stores its
// output once. [Memory] is a store for one process, and package jetstream has one for all
// workers of a deployment. Each store decides how long it keeps outputs; reading one that
// is gone is an error.
package output

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Store stores bytes by their digest, the SHA-256 in hex. It is safe for concurrent use.
type Store interface {
	// PutFrom stores src from its start and returns its digest and size. It may read src
	// twice and returns an error if the two differ.
	PutFrom(ctx context.Context, src io.ReadSeeker) (id string, size int64, err error)
	// CopyTo writes the bytes with a digest to w; ok is false if there are none. It checks
	// the digest at the end, so what it wrote is valid only if ok and without an error.
	CopyTo(ctx context.Context, id string, w io.Writer) (ok bool, err error)
}

// ReadTool is the name of the tool that reads outputs.
const ReadTool = "output_read"

// MetaKept is the metadata key for [Kept] in a result.
const MetaKept = "kept_output"

// Kept says where the whole output of a call is stored.
type Kept struct {
	ID    string `json:"id"`
	Bytes int    `json:"bytes"`
	Tool  string `json:"read_tool"`
}

// Options configures [Keep].
type Options struct {
	Limit int   // bytes of text in a result; zero: 32 KiB
	Most  int64 // bytes stored of one output; zero: 100 MiB

	// Refuse returns why a session's outputs are not stored, or nil if they are. It may be nil.
	Refuse func(ctx context.Context, s content.SessionID) error
}

const (
	defaultLimit = 32 << 10
	defaultMost  = 100 << 20

	// mediaRoom is how many bytes of images and files a result contains itself.
	mediaRoom = 512 << 10
)

// Keep returns middleware that stores long outputs and long errors. If the store fails,
// the output is still cut, and says so. A model sees stored files only if its host uses
// the same store.
func Keep(store Store, opts Options) tool.Middleware {
	return func(ctx context.Context, c tool.Call, next tool.Handler) (tool.Output, error) {
		if c.Name == ReadTool {
			return next(ctx, c)
		}
		k := &keeper{store: store, session: c.Session, limit: cmp.Or(max(opts.Limit, 0), defaultLimit), most: cmp.Or(max(opts.Most, 0), defaultMost)}
		if opts.Refuse != nil {
			if err := opts.Refuse(ctx, c.Session); err != nil {
				k.store = refusing{err}
			}
		}
		c.Stash = k
		out, err := next(ctx, c)
		if e, ok := errors.AsType[*tool.Error](err); ok {
			return out, k.failure(ctx, err, e)
		}
		if err != nil {
			return out, err
		}
		return k.output(ctx, out), nil
	}
}

// refusing is a store that stores nothing.
type refusing struct{ why error }

func (r refusing) PutFrom(context.Context, io.ReadSeeker) (id string, size int64, err error) {
	return "", 0, r.why
}

func (r refusing) CopyTo(context.Context, string, io.Writer) (ok bool, err error) {
	return false, r.why
}

// output shortens an output whose total text is too long, and stores media that does not fit.
func (k *keeper) output(ctx context.Context, out tool.Output) tool.Output {
	var text joined
	var rest []content.Part
	for _, p := range out.Parts {
		switch p.Kind {
		case content.TextKind, content.StructuredKind, content.CustomKind:
			text.add(p)
		default:
			rest = append(rest, p)
		}
	}
	if text.size > int64(k.limit)+k.shown() {
		shown := text.clip(k.limit)
		out.Parts = append([]content.Part{k.Text(ctx, shown, &text, text.size)}, rest...)
	}
	out.Parts = k.media(ctx, out.Parts)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.ID != "" {
		out.Metadata = out.Metadata.With(MetaKept, k.last)
	}
	out.Stashed = k.files
	return out
}

// media replaces media that does not fit with references.
func (k *keeper) media(ctx context.Context, parts []content.Part) []content.Part {
	room, out := mediaRoom, append([]content.Part(nil), parts...)
	for i, p := range out {
		if p.Media == nil || len(p.Media.Bytes) == 0 {
			continue
		}
		if n := len(p.Media.Bytes); n <= room {
			room -= n
			continue
		}
		if ref, err := k.refer(ctx, p); err == nil { // otherwise the invoker leaves it out
			out[i] = ref
		}
	}
	return out
}

// failure shortens an error with a long text.
func (k *keeper) failure(ctx context.Context, err error, e *tool.Error) error {
	if int64(len(e.Message)) <= int64(k.limit)+k.shown() {
		return err
	}
	var text joined
	text.add(content.TextPart(e.Message))
	shown, short := text.clip(k.limit), *e
	short.Message = k.Text(ctx, shown, &text, text.size).Text
	return &short
}
