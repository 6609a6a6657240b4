package tool

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/turnlog/turnlog/content"
)

// Spool accepts any amount of a call's output. In memory it keeps only the beginning and the end,
// which the result shows. If the call has a [Stash], a long output also goes to an unnamed file, up to
// the stash's limit, and from there to the stash. It is not safe for concurrent use.
type Spool struct {
	stash Stash
	most  int64 // limit of the file, in bytes
	clip  *Clip
	file  *scratch      // nil while everything fits in the clip
	buf   *bufio.Writer // writes to file
	saved int64         // bytes written to buf
	err   error         // why the file is incomplete
}

// Spool returns a spool for the call's output. The result shows up to limit bytes, or
// fewer if the host says so. Close it when the call ends.
func (c Call) Spool(limit int) *Spool {
	s := &Spool{stash: c.Stash}
	if s.stash != nil {
		var shown int
		shown, s.most = s.stash.Room()
		limit = min(limit, shown)
	}
	s.clip = NewClip(limit)
	return s
}

// Write accepts all of p and never fails. Part reports what could not be kept.
func (s *Spool) Write(p []byte) (int, error) {
	if s.stash != nil && s.err == nil {
		s.err = s.save(p)
	}
	return s.clip.Write(p)
}

// save writes to the file. The first time, it first writes the content of the clip.
func (s *Spool) save(p []byte) error {
	if s.file == nil {
		if s.clip.holds(len(p)) {
			return nil
		}
		file, err := newScratch()
		if err != nil {
			return err
		}
		s.file, s.buf = &file, bufio.NewWriterSize(file, 64<<10)
		for _, before := range [][]byte{s.clip.head, s.clip.tail} {
			if err := s.append(before); err != nil {
				return err
			}
		}
	}
	return s.append(p)
}

func (s *Spool) append(p []byte) error {
	n, err := s.buf.Write(p[:min(int64(len(p)), s.most-s.saved)])
	s.saved += int64(n)
	return err //nolint:wrapcheck // the note in the result gives context
}

// Keeps reports whether the host keeps long outputs.
func (s *Spool) Keeps() bool { return s.stash != nil }

// Size is the number of bytes written.
func (s *Spool) Size() int64 { return s.clip.size }

// Cut is the number of bytes that the shown text leaves out.
func (s *Spool) Cut() int64 {
	_, cut := s.clip.Text()
	return cut
}

// Part returns the output as a part of a result. It shows the beginning and the end of
// a long output and, if the host keeps it, says how to read the rest.
func (s *Spool) Part(ctx context.Context) content.Part {
	text, _ := s.clip.Text()
	if s.clip.holds(0) {
		return content.TextPart(text)
	}
	return s.Showing(ctx, text)
}

// Showing is Part with another text to show.
func (s *Spool) Showing(ctx context.Context, text string) content.Part {
	if s.buf != nil && s.err == nil {
		s.err = s.buf.Flush()
	}
	switch {
	case s.stash == nil:
		return content.TextPart(text)
	case s.err != nil:
		return content.TextPart(fmt.Sprintf("%s\n[The whole output, %d bytes, could not be kept: %v]\n", text, s.Size(), s.err))
	case s.file == nil:
		all := append(bytes.Clone(s.clip.head), s.clip.tail...)
		return s.stash.Text(ctx, text, bytes.NewReader(all), s.Size())
	}
	return s.stash.Text(ctx, text, io.NewSectionReader(s.file, 0, s.saved), s.Size())
}

// Close deletes the file.
func (s *Spool) Close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// scratch is a temporary file. It is deleted when it is closed or, on systems that can
// delete an open file, at once, so that it does not outlive a killed process.
type scratch struct{ *os.File }

func newScratch() (scratch, error) {
	f, err := os.CreateTemp("", "turnlog-output-*")
	if err != nil {
		return scratch{}, err //nolint:wrapcheck // the caller says what it is for
	}
	_ = os.Remove(f.Name()) // Close tries again
	return scratch{f}, nil
}

// Close deletes the file.
func (s scratch) Close() {
	_ = s.File.Close()
	_ = os.Remove(s.Name())
}
