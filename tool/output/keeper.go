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

// keeper keeps what one call puts out.
type keeper struct {
	store   Store
	session content.SessionID
	limit   int
	most    int64

	mu    sync.Mutex
	texts int64    // bytes of what stands for texts that are kept
	last  Kept     // the last of them
	files []string // names of files that are kept
}

var _ tool.Stash = (*keeper)(nil)

// Room says what a result shows, and what is kept.
func (k *keeper) Room() (shown int, kept int64) { return k.limit, k.most }

// told is how much of an output's text stands for what is kept already, and is not to be
// shortened once more.
func (k *keeper) told() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.texts
}

// Text keeps a text, with the session in front of it, so that the digest covers that.
func (k *keeper) Text(ctx context.Context, shown string, src io.ReadSeeker, total int64) content.Part {
	head := seal(k.session)
	id, size, err := k.store.PutFrom(ctx, &joined{readers: []io.ReadSeeker{strings.NewReader(head), &first{src: src, most: k.most}}})
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

// File keeps a file.
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

// refer keeps the bytes of a part, and returns it with a reference in their place.
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

// seal is what stands in front of what a session keeps.
func seal(session content.SessionID) string { return "turnlog output of " + string(session) + "\n" }

// joined reads several things as one, where they are. It has no WriteTo on purpose: what
// a string is written to with it, such as a digest, may copy it as a whole.
type joined struct {
	readers []io.ReadSeeker
	at      int
	size    int64
	newline bool // the last one ends in one
}

// add puts the text of a part on a line of its own.
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

// Read reads on.
func (j *joined) Read(p []byte) (int, error) {
	for j.at < len(j.readers) {
		n, err := j.readers[j.at].Read(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err //nolint:wrapcheck // it stays what it is
		}
		if err != nil {
			j.at++
		}
	}
	return 0, io.EOF
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

// Seek goes back to the start, and nowhere else.
func (j *joined) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.ErrUnsupported
	}
	for _, r := range j.readers {
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return 0, err //nolint:wrapcheck // it stays what it is
		}
	}
	j.at = 0
	return 0, nil
}

// first is the beginning of something.
type first struct {
	src  io.ReadSeeker
	most int64
	read int64
}

// Read reads on.
func (f *first) Read(p []byte) (int, error) {
	if f.read >= f.most {
		return 0, io.EOF
	}
	n, err := f.src.Read(p[:min(int64(len(p)), f.most-f.read)])
	f.read += int64(n)
	return n, err //nolint:wrapcheck // it stays what it is
}

// Seek goes back to the start.
func (f *first) Seek(offset int64, whence int) (int64, error) {
	f.read = 0
	return f.src.Seek(offset, whence) //nolint:wrapcheck // it stays what it is
}
