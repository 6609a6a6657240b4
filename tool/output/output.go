// Package output keeps what tools put out and is too long for a conversation, and lets
// models read it in pieces.
//
// The one idea: nothing is lost by being cut. [Keep] stands around the calls of tools.
// Where an output is longer than the limit, all of its text goes to a [Store], and the
// result holds its beginning, its end, and how to read the rest with output_read, the
// tool that [NewReader] makes. Images and files that a result has no room for go there
// too, and the result refers to them, as input does to what is attached to it.
//
// Nothing is held in memory for that. A tool that takes its output from somewhere else
// hands it over as it comes, see [tool.Call.Spool] and [tool.Call.Attach], and what a
// tool returns is read where it is.
//
// A store is addressed by content: the name of an output is the digest of its bytes and
// of the session that they belong to, so a session reads its own outputs only, and a
// call that is repeated keeps its output once. Which stores there are: [Memory], for
// one process, [Dir], for those that share a folder, and the blobs of a deployment, for
// all workers of it; see the package jetstream. How long an output is kept is the
// store's to say; one that is gone is told to be.
package output

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Store keeps bytes under the digest of them, which is its name for them: the SHA-256,
// in hexadecimal. It is safe for concurrent use.
type Store interface {
	// PutFrom keeps what src holds from its start, once, and returns its name and its
	// size. It may read src twice, and fails if the two differ.
	PutFrom(ctx context.Context, src io.ReadSeeker) (id string, size int64, err error)
	// CopyTo writes what is kept under a name to w, and has checked at the end that it is
	// that; ok is false if there is nothing. Only without an error and with ok is what was
	// written what was kept.
	CopyTo(ctx context.Context, id string, w io.Writer) (ok bool, err error)
}

// ReadTool is the name of the tool that reads outputs.
const ReadTool = "output_read"

// MetaKept is the key of a result's metadata under which [Kept] stands.
const MetaKept = "kept_output"

// Kept says where the whole output of a call is.
type Kept struct {
	ID    string `json:"id"`
	Bytes int    `json:"bytes"`
	Tool  string `json:"read_tool"`
}

// Options configures [Keep].
type Options struct {
	Limit  int            // bytes of text that a result may hold; zero: 32 KiB
	Limits map[string]int // by the name of the tool, before Limit; negative: never kept here
	Most   int64          // bytes that are kept of one output; zero: 100 MiB
}

const (
	defaultLimit = 32 << 10
	defaultMost  = 100 << 20

	// mediaRoom is how many bytes of images and files a result holds itself.
	mediaRoom = 512 << 10
)

func (o Options) limit(name string) int {
	if n, ok := o.Limits[name]; ok && n != 0 {
		return n
	}
	return cmp.Or(max(o.Limit, 0), defaultLimit)
}

// Keep returns middleware that keeps long outputs in the store, and long errors, too.
// Where the store does not take one, the output is cut all the same, and says so. A
// model is shown the files only if its host knows the store, see effect.Blobs.
func Keep(store Store, opts Options) tool.Middleware {
	return func(ctx context.Context, c tool.Call, next tool.Handler) (tool.Output, error) {
		limit := opts.limit(c.Name)
		if c.Name == ReadTool || limit < 0 {
			return next(ctx, c)
		}
		k := &keeper{store: store, session: c.Session, limit: limit, most: cmp.Or(max(opts.Most, 0), defaultMost)}
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

// output shortens an output whose text, all in all, is too long, and takes media out of
// it that there is no room for.
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
	if text.size > int64(k.limit)+k.told() {
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

// media replaces what a result has no room for by references.
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
		if ref, err := k.refer(ctx, p); err == nil { // else there is no room for it
			out[i] = ref
		}
	}
	return out
}

// failure shortens an error whose text is too long.
func (k *keeper) failure(ctx context.Context, err error, e *tool.Error) error {
	if int64(len(e.Message)) <= int64(k.limit)+k.told() {
		return err
	}
	var text joined
	text.add(content.TextPart(e.Message))
	shown, short := text.clip(k.limit), *e
	short.Message = k.Text(ctx, shown, &text, text.size).Text
	return &short
}
