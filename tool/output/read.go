package output

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// CodeGone is the code for an output that the store does not have, at least not for
// this session.
const CodeGone = "output_gone"

// Limits of one read.
const (
	maxRead     = 64 << 10
	defaultRead = 16 << 10
)

type readInput struct {
	ID     string `json:"id" jsonschema:"The id of the output, from the result that was cut."`
	Offset int    `json:"offset,omitempty" jsonschema:"The byte to start at. Default: the beginning."`
	Limit  int    `json:"limit,omitempty" jsonschema:"How many bytes to read. Default: 16384."`
	Search string `json:"search,omitempty" jsonschema:"Instead of reading, show the lines from offset on that match this regular expression (RE2 syntax), each with its offset or, for a long line, the offset of the part shown."`
}

// NewReader returns the tool output_read for a store.
func NewReader(store Store) (tool.Tool, error) {
	return tool.CallFunc(ReadTool,
		"Reads an output that was too long for its result, in pieces. The first line of the result says which bytes follow and where to continue. With search it shows matching lines instead.",
		func(ctx context.Context, c tool.Call, in readInput) (string, error) { return read(ctx, store, c, in) },
		tool.ReadOnly(), tool.WithSchema(func(s *jsonschema.Schema) {
			s.Properties["id"].MinLength = new(1)
			s.Properties["offset"].Minimum = new(0.0)
			s.Properties["limit"].Minimum, s.Properties["limit"].Maximum = new(1.0), new(float64(maxRead))
		}))
}

func read(ctx context.Context, store Store, c tool.Call, in readInput) (string, error) {
	w, found := window{from: in.Offset, room: cmp.Or(in.Limit, defaultRead)}, search{}
	into := io.Writer(&w)
	if in.Search != "" {
		re, err := regexp.Compile(in.Search)
		if err != nil {
			return "", tool.Failure(tool.CodeInvalidArguments, "search: %v", err)
		}
		found = search{re: re, from: in.Offset}
		into = &found
	}
	whole := opened{seal: seal(c.Session), text: into}
	ok, err := store.CopyTo(ctx, in.ID, &whole)
	switch {
	case errors.Is(err, errForeign) || err == nil && (!ok || whole.seal != ""):
		return "", tool.Failure(CodeGone, "there is no output %.80q: it is no longer stored, or belongs to another session. Repeat the call with less output", in.ID)
	case err != nil:
		return "", err
	case in.Offset >= whole.size && in.Offset > 0:
		return "", tool.Failure(tool.CodeInvalidArguments, "offset: is %d, but the output has %d bytes", in.Offset, whole.size)
	case in.Search != "":
		return found.answer(), nil
	}
	return w.answer(whole.size), nil
}

var errForeign = errors.New("it belongs to another session")

// opened receives a stored text and passes on what follows the seal.
type opened struct {
	seal string // the rest of it
	text io.Writer
	size int // of the text, so far
}

// Write returns errForeign if the text does not begin with the seal.
func (o *opened) Write(p []byte) (int, error) {
	n := min(len(o.seal), len(p))
	if string(p[:n]) != o.seal[:n] {
		return 0, errForeign
	}
	o.seal = o.seal[n:]
	o.size += len(p) - n
	if _, err := o.text.Write(p[n:]); err != nil {
		return 0, err //nolint:wrapcheck // the writers here never fail
	}
	return len(p), nil
}

// window keeps a piece of its input.
type window struct {
	from, room int
	at         int // position in the whole text
	piece      []byte
}

// Write accepts all of p and never fails.
func (w *window) Write(p []byte) (int, error) {
	begin := max(0, w.from-w.at)
	end := min(len(p), w.from+w.room+2*utf8.UTFMax-w.at) // and room for characters at both ends
	if begin < end {
		w.piece = append(w.piece, p[begin:end]...)
	}
	w.at += len(p)
	return len(p), nil
}

// answer returns the piece, in whole characters, and its position in an output of the given size.
func (w *window) answer(size int) string {
	begin := 0
	if w.from > 0 {
		begin = content.Boundary(w.piece, 0)
	}
	end := content.Boundary(w.piece, min(begin+w.room, len(w.piece)))
	next, from, to := "the end", w.from+begin, w.from+end
	if to < size {
		next = fmt.Sprintf("continue with offset %d", to)
	}
	return fmt.Sprintf("output: bytes %d to %d of %d; %s\n%s", from, to, size, next, bytes.ToValidUTF8(w.piece[begin:end], []byte("\uFFFD")))
}
