// Package output keeps what tools put out and is too long for a conversation, and lets
// models read it in pieces.
//
// The one idea: nothing is lost by being cut. [Keep] stands around the calls of tools.
// Where an output is longer than the limit, all of its text goes to a [Store], and the
// result holds its beginning, its end, and how to read the rest with output_read, the
// tool that [NewReader] makes.
//
// A store is addressed by content: the name of an output is the digest of its bytes and
// of the session that they belong to, so a session reads its own outputs only, and a
// call that is repeated keeps its output once. Which stores there are: [Memory], for
// one process, [Dir], for those that share a folder, and the blobs of a deployment, for
// all workers of it; see the package jetstream. How long an output is kept is the
// store's to say; one that is gone is told to be.
package output

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Store keeps bytes under the digest of them, which is its name for them. It is safe
// for concurrent use.
type Store interface {
	// Put keeps data and returns its name: the SHA-256, in hexadecimal.
	Put(ctx context.Context, data []byte) (id string, err error)
	// Get returns what was kept under a name; ok is false if there is nothing.
	Get(ctx context.Context, id string) (data []byte, ok bool, err error)
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
}

const defaultLimit = 32 << 10

func (o Options) limit(name string) int {
	if n, ok := o.Limits[name]; ok && n != 0 {
		return n
	}
	return cmp.Or(max(o.Limit, 0), defaultLimit)
}

// Keep returns middleware that keeps long outputs in the store, and long errors, too.
// Where the store does not take one, the output is cut all the same, and says so.
func Keep(store Store, opts Options) tool.Middleware {
	return func(ctx context.Context, c tool.Call, next tool.Handler) (tool.Output, error) {
		out, err := next(ctx, c)
		limit := opts.limit(c.Name)
		if c.Name == ReadTool || limit < 0 {
			return out, err
		}
		k := keeper{store: store, session: c.Session, limit: limit}
		if e, ok := errors.AsType[*tool.Error](err); ok && len(e.Message) > limit {
			short := *e
			short.Message, _ = k.shorten(ctx, e.Message)
			return out, &short
		}
		if err != nil {
			return out, err
		}
		return k.output(ctx, out), nil
	}
}

type keeper struct {
	store   Store
	session content.SessionID
	limit   int
}

// output shortens an output whose text, all in all, is too long. Media stay.
func (k keeper) output(ctx context.Context, out tool.Output) tool.Output {
	var text strings.Builder
	var rest []content.Part
	for _, p := range out.Parts {
		switch p.Kind {
		case content.TextKind, content.StructuredKind, content.CustomKind:
			if text.Len() > 0 && !strings.HasSuffix(text.String(), "\n") {
				text.WriteByte('\n')
			}
			text.WriteString(p.Text)
			text.Write(p.Data)
		default:
			rest = append(rest, p)
		}
	}
	if text.Len() <= k.limit {
		return out
	}
	short, kept := k.shorten(ctx, text.String())
	out.Parts = append([]content.Part{content.TextPart(short)}, rest...)
	if kept.ID != "" {
		out.Metadata = out.Metadata.With(MetaKept, kept)
	}
	return out
}

// shorten keeps a text and returns what the model is shown of it.
func (k keeper) shorten(ctx context.Context, text string) (string, Kept) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	clip := tool.NewClip(k.limit)
	_, _ = clip.Write([]byte(text)) // never fails
	shown, _ := clip.Text()
	id, err := k.store.Put(ctx, seal(k.session, text))
	if err != nil {
		return fmt.Sprintf("%s\n[The whole output, %d bytes, could not be kept: %v]\n", shown, len(text), err), Kept{}
	}
	note := fmt.Sprintf("\n[The whole output, %d bytes, is kept: read it with %s, id %q, by offset and limit or with search.]\n", len(text), ReadTool, id)
	return shown + note, Kept{ID: id, Bytes: len(text), Tool: ReadTool}
}

// seal puts the session in front of a text, so that the digest covers it.
func seal(session content.SessionID, text string) []byte {
	return append([]byte("turnlog output of "+string(session)+"\n"), text...)
}

// open returns the text of what seal made for the session.
func open(session content.SessionID, data []byte) (string, bool) {
	text, ok := bytes.CutPrefix(data, seal(session, ""))
	return string(text), ok
}
