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

// Spool takes the output of a call, however much there is, and holds no more of it in
// memory than a result shows: the beginning and the end. Where the call has a [Stash],
// all of a long output goes to a file without a name, as far as the stash has room, and
// from there to the stash. It is not safe for concurrent use.
type Spool struct {
	stash Stash
	most  int64 // bytes that the file may have
	clip  *Clip
	file  *scratch // nil until there is more than is shown
	ahead *bufio.Writer
	saved int64 // bytes in both
	err   error // why the file does not hold them
}

// Spool returns a place for the output of the call, of which a result shows limit bytes,
// or less if the host wants less. Close it when the call ends.
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

// Write takes all of p and never fails; see Part for what could not be kept.
func (s *Spool) Write(p []byte) (int, error) {
	if s.stash != nil && s.err == nil {
		s.err = s.save(p)
	}
	return s.clip.Write(p)
}

// save writes to the file, beginning with what the clip still holds as a whole.
func (s *Spool) save(p []byte) error {
	if s.file == nil {
		if s.clip.holds(len(p)) {
			return nil
		}
		file, err := newScratch()
		if err != nil {
			return err
		}
		s.file, s.ahead = &file, bufio.NewWriterSize(file, 64<<10)
		for _, before := range [][]byte{s.clip.head, s.clip.tail} {
			if err := s.append(before); err != nil {
				return err
			}
		}
	}
	return s.append(p)
}

func (s *Spool) append(p []byte) error {
	n, err := s.ahead.Write(p[:min(int64(len(p)), s.most-s.saved)])
	s.saved += int64(n)
	return err //nolint:wrapcheck // the note in the result says what it was about
}

// Keeps reports whether the whole of a long output is kept, as far as there is room.
func (s *Spool) Keeps() bool { return s.stash != nil }

// Size is how many bytes were written.
func (s *Spool) Size() int64 { return s.clip.size }

// Cut is how many bytes a result leaves out that shows what the spool does.
func (s *Spool) Cut() int64 {
	_, cut := s.clip.Text()
	return cut
}

// Part returns what was written as a part of a result. Of a long output it shows the
// beginning and the end, and says how to read the rest if that is kept.
func (s *Spool) Part(ctx context.Context) content.Part {
	text, _ := s.clip.Text()
	if s.clip.holds(0) {
		return content.TextPart(text)
	}
	return s.Showing(ctx, text)
}

// Showing is Part with another text for what is shown.
func (s *Spool) Showing(ctx context.Context, text string) content.Part {
	if s.ahead != nil && s.err == nil {
		s.err = s.ahead.Flush()
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

// Close gives up what was not kept.
func (s *Spool) Close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// scratch is an empty file that is gone when it is closed and, where a file that is open
// can lose its name, also when its process is.
type scratch struct{ *os.File }

func newScratch() (scratch, error) {
	f, err := os.CreateTemp("", "turnlog-output-*")
	if err != nil {
		return scratch{}, err //nolint:wrapcheck // the caller says what it is for
	}
	_ = os.Remove(f.Name()) // or else when it is closed
	return scratch{f}, nil
}

// Close gives the file up.
func (s scratch) Close() {
	_ = s.File.Close()
	_ = os.Remove(s.Name())
}
