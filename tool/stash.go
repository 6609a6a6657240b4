package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/turnlog/turnlog/content"
)

// Stash keeps what a result has no room for. It reads what it is given a piece at a
// time, so that the whole need never be in memory. The host's middleware lends one to the
// calls inside of it; see package output. It is safe for concurrent use.
type Stash interface {
	// Room is how many bytes of text a result of the call is to hold, and how many bytes
	// of one output are kept at most.
	Room() (shown int, kept int64)
	// Text keeps what src holds from its start, and returns the part that stands for it in
	// the result: what is shown, and how to read the rest. Of total bytes src may hold the
	// first ones only. What goes wrong is said in the part.
	Text(ctx context.Context, shown string, src io.ReadSeeker, total int64) content.Part
	// File keeps what src holds from its start, and returns the part that refers to it.
	File(ctx context.Context, name, mime string, src io.ReadSeeker) (content.Part, error)
}

// CodeTooLarge is the code of a failure: a file is larger than what a result may hold or
// refer to.
const CodeTooLarge = "too_large"

const (
	attachInline = 64 << 10 // bytes of a file that a part holds itself
	noStash      = defaultMaxOutput - 4096
)

// Attach returns a part with a file for the call's output. A small file is in the part
// itself. What is larger is read from r a piece at a time and kept by the host, and the
// part refers to it; it returns an error where the host keeps nothing, or not that much.
func (c Call) Attach(ctx context.Context, name, mime string, r io.Reader) (content.Part, error) {
	r = &untilDone{ctx, r}
	inline := int64(attachInline)
	if c.Stash == nil {
		inline = noStash
	}
	var head bytes.Buffer
	switch n, err := io.CopyN(&head, r, inline+1); {
	case errors.Is(err, io.EOF):
		return content.FilePart(name, mime, head.Bytes()), nil
	case err != nil:
		return content.Part{}, fmt.Errorf("attach %s: %w", name, err)
	case c.Stash == nil:
		return content.Part{}, Failure(CodeTooLarge, "%s has %d bytes or more, and larger files are not kept here", name, n)
	}
	_, most := c.Stash.Room()
	file, err := newScratch()
	if err != nil {
		return content.Part{}, fmt.Errorf("attach %s: %w", name, err)
	}
	defer file.Close()
	switch n, err := io.Copy(file, io.LimitReader(io.MultiReader(&head, r), most+1)); {
	case err != nil:
		return content.Part{}, fmt.Errorf("attach %s: %w", name, err)
	case n > most:
		return content.Part{}, Failure(CodeTooLarge, "%s has more than %d bytes, which is what is kept of a file", name, most)
	}
	return c.Stash.File(ctx, name, mime, file)
}

// untilDone reads until the context ends.
type untilDone struct {
	ctx context.Context //nolint:containedctx // of the one copy that it is made for
	src io.Reader
}

func (r *untilDone) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.src.Read(p) //nolint:wrapcheck // io.EOF has to stay what it is
}
