package output

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// keeper stores the output of one call.
type keeper struct {
	store   Store
	session content.SessionID
	limit   int
	most    int64

	mu    sync.Mutex
	texts int64    // bytes of shown text that represents stored text
	last  Kept     // the last stored text
	files []string // IDs of stored files
}

var _ tool.Stash = (*keeper)(nil)

// Room returns how much a result shows and how much is stored.
func (k *keeper) Room() (shown int, kept int64) { return k.limit, k.most }

// shown returns how much of an output's text already represents stored text and must not
// be shortened again.
func (k *keeper) shown() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.texts
}

// Text stores a text after the name of its session, so that the digest covers both.
func (k *keeper) Text(ctx context.Context, shown string, src io.ReadSeeker, total int64) content.Part {
	head := seal(k.session)
	id, size, err := k.store.PutFrom(ctx, &joined{readers: []io.ReadSeeker{strings.NewReader(head), src}, most: int64(len(head)) + k.most})
	size -= int64(len(head))
	var note string
	switch how := fmt.Sprintf("read it with %s, id %q, by offset and limit or with search", ReadTool, id); {
	case err != nil:
		note = fmt.Sprintf("\n[The whole output, %d bytes, could not be kept: %v]\n", total, err)
	case size < total:
		note = fmt.Sprintf("\n[Of the whole output, %d bytes, the first %d are kept: %s.]\n", total, size, how)
	default:
		note = fmt.Sprintf("\n[The whole output, %d bytes, is kept: %s.]\n", size, how)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.texts += int64(len(shown) + len(note))
	if err == nil {
		k.last = Kept{ID: id, Bytes: int(size), Tool: ReadTool}
	}
	return content.TextPart(shown + note)
}

// File stores a file.
func (k *keeper) File(ctx context.Context, name, mime string, src io.ReadSeeker) (content.Part, error) {
	id, size, err := k.store.PutFrom(ctx, src)
	if err != nil {
		return content.Part{}, fmt.Errorf("keep %s: %w", name, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files = append(k.files, id)
	return content.BlobPart(name, mime, id, size), nil
}

// refer stores the bytes of a part and returns the part with a reference instead.
func (k *keeper) refer(ctx context.Context, p content.Part) (content.Part, error) {
	m := *p.Media
	if int64(len(m.Bytes)) > k.most {
		return p, errors.New("it is too large")
	}
	blob, err := k.File(ctx, p.Name, m.MIME, bytes.NewReader(m.Bytes))
	if err != nil {
		return p, err
	}
	m.Bytes, m.URI, p.Media = nil, blob.Media.URI, &m
	size, _ := blob.Metadata.Get(content.MetaSize)
	p.Metadata = p.Metadata.With(content.MetaSize, size)
	return p, nil
}

// seal is the prefix of the texts that a session stores.
func seal(session content.SessionID) string { return "turnlog output of " + string(session) + "\n" }

// joined reads several sources as one. It has no WriteTo on purpose: writing a string
// that way, for example to a digest, may copy the whole string.
type joined struct {
	io.Reader // since the last Seek
	readers   []io.ReadSeeker
	most      int64 // bytes that are read; 0: all
	size      int64
	newline   bool // the last source ends with a newline
}

// add appends the text of a part on a new line.
func (j *joined) add(p content.Part) {
	if j.size > 0 && !j.newline {
		j.push(strings.NewReader("\n"), 1, true)
	}
	if p.Text != "" {
		j.push(strings.NewReader(p.Text), len(p.Text), strings.HasSuffix(p.Text, "\n"))
	}
	if len(p.Data) > 0 {
		j.push(bytes.NewReader(p.Data), len(p.Data), bytes.HasSuffix(p.Data, []byte("\n")))
	}
}

func (j *joined) push(r io.ReadSeeker, n int, newline bool) {
	j.readers, j.size, j.newline = append(j.readers, r), j.size+int64(n), newline
}

// clip returns the beginning and the end of the text, about limit bytes, and copies no
// more than that.
func (j *joined) clip(limit int) string {
	c := tool.NewClip(limit)
	for _, r := range j.readers {
		_, _ = io.Copy(c, r) // neither fails
	}
	shown, _ := c.Text()
	return shown
}

// Seek returns to the start. It can seek nowhere else.
func (j *joined) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.ErrUnsupported
	}
	all := make([]io.Reader, len(j.readers))
	for i, r := range j.readers {
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return 0, err //nolint:wrapcheck // the reader's own
		}
		all[i] = r
	}
	if j.Reader = io.MultiReader(all...); j.most > 0 {
		j.Reader = io.LimitReader(j.Reader, j.most)
	}
	return 0, nil
}
