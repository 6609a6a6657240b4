package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/turnlog/turnlog/content"
)

// Stash stores output that does not fit in a result. It reads its sources piece by piece, so they need
// not be in memory. The host's middleware provides one for each call; see package output. It is safe
// for concurrent use.
type Stash interface {
	// Room returns how many bytes of text a result should show, and the maximum bytes kept of one
	// output.
	Room() (shown int, kept int64)
	// Text stores src from its start and returns the part for the result: the shown text
	// and how to read the rest. src may hold only the first of total bytes. A failure is
	// reported in the part.
	Text(ctx context.Context, shown string, src io.ReadSeeker, total int64) content.Part
	// File stores src from its start and returns the part that refers to it.
	File(ctx context.Context, name, mime string, src io.ReadSeeker) (content.Part, error)
}

// CodeTooLarge is the code for a file that is larger than a result may hold or refer
// to.
const CodeTooLarge = "too_large"

const (
	attachInline = 64 << 10 // bytes of a file that a part contains itself
	noStash      = defaultMaxOutput - 4096
)

// Attach returns a part that holds a file for the call's output. A small file is in the
// part itself. A larger one is read piece by piece and stored by the host, and the part
// refers to it. It returns an error if the host stores nothing, or not that much.
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
		return content.Part{}, Failure(CodeTooLarge, "%s has %d bytes or more, and this host does not store larger files", name, n)
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
		return content.Part{}, Failure(CodeTooLarge, "%s has more than %d bytes, the limit for a file", name, most)
	}
	return c.Stash.File(ctx, name, mime, file)
}

// untilDone reads until its context ends.
type untilDone struct {
	ctx context.Context //nolint:containedctx // for one copy
	src io.Reader
}

func (r *untilDone) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.src.Read(p) //nolint:wrapcheck // io.EOF must stay io.EOF
}
