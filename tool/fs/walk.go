package fs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// errStop ends a walk early without an error.
var errStop = errors.New("stop")

// visitFunc visits an entry. below is its path relative to the start of the walk.
type visitFunc func(name, below string, e fs.DirEntry) error

// walk visits everything below start, sorted by name. If start is a file, it visits
// only that, ignored or not. Without all, it skips what ignore files exclude.
func (d *dir) walk(ctx context.Context, start string, all bool, visit visitFunc) (w walked, err error) {
	visitAny := visit
	if !all {
		visit = d.ignores().entries(&w, visit)
	}
	err = fs.WalkDir(d.FS(), start, func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && name == start:
			return d.explain(start, err)
		case err != nil:
			w.unreadable++
			return fs.SkipDir
		case name == start && e.IsDir():
			return nil
		case name == start:
			return visitAny(name, path.Base(name), e)
		}
		below := name
		if start != "." {
			below = strings.TrimPrefix(name, start+"/")
		}
		if err := visit(name, below, e); err != nil {
			return err
		}
		if e.IsDir() && ownedByVCS(e.Name()) {
			return fs.SkipDir
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return w, err
}

// ownedByVCS reports whether a directory belongs to a version control system. Its
// files are not worth searching.
func ownedByVCS(name string) bool {
	return name == ".git" || name == ".hg" || name == ".svn" || name == ".jj"
}

// selection chooses files below a path.
type selection struct {
	start            string
	include, exclude *glob
	ignored          bool // include what ignore files exclude
}

func (d *dir) selection(start, include, exclude string) (selection, error) {
	var s selection
	var err error
	if s.start, err = d.Rel(start); err != nil {
		return s, err
	}
	if s.include, err = parseGlob(include); err != nil {
		return s, invalid("include", err)
	}
	if s.exclude, err = parseGlob(exclude); err != nil {
		return s, invalid("exclude", err)
	}
	return s, nil
}

func invalid(field string, err error) error {
	return &tool.Error{Code: tool.CodeInvalidArguments, Message: field + ": " + err.Error()}
}

// skipped counts selected files that could not be read.
type skipped struct {
	walked
	binary int
}

// String returns a suffix for a summary.
func (s skipped) String() string {
	var b strings.Builder
	if s.binary > 0 {
		fmt.Fprintf(&b, "; skipped: %d binary", s.binary)
	}
	if s.unreadable > 0 {
		fmt.Fprintf(&b, "; could not be read: %d", s.unreadable)
	}
	if s.ignored > 0 {
		fmt.Fprintf(&b, "; left out by ignore files: %d", s.ignored)
	}
	return b.String()
}

// readFunc reads the content of a file of size bytes.
type readFunc func(name string, r *bufio.Reader, size int64) error

// files calls read for every text file of a selection.
func (d *dir) files(ctx context.Context, s selection, read readFunc) (skipped, error) {
	var skip skipped
	buffer := newBuffer()
	w, err := d.walk(ctx, s.start, s.ignored, func(name, below string, e fs.DirEntry) error {
		if s.exclude != nil && s.exclude.match(below) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() || s.include != nil && !s.include.match(below) {
			return nil
		}
		err := d.text(ctx, name, buffer, read)
		if e, ok := errors.AsType[*tool.Error](err); ok {
			if e.Code == CodeBinary {
				skip.binary++
			} else {
				skip.unreadable++
			}
			return nil
		}
		return err
	})
	skip.unreadable += w.unreadable
	skip.ignored = w.ignored
	return skip, err
}

// binaryProbe is how many bytes decide whether a file is text.
const binaryProbe = 8000

func newBuffer() *bufio.Reader { return bufio.NewReaderSize(nil, 64<<10) }

// text reads a text file through buffer. A problem with the file becomes a
// [tool.Error]; other errors from read are returned unchanged.
func (d *dir) text(ctx context.Context, name string, buffer *bufio.Reader, read readFunc) error {
	return d.summed(ctx, name, buffer, io.Discard, read)
}

// summed is text and also writes what it reads to sum.
func (d *dir) summed(ctx context.Context, name string, buffer *bufio.Reader, sum io.Writer, read readFunc) error {
	info, err := d.regular(name)
	if err != nil {
		return err
	}
	f, err := d.Open(name)
	if err != nil {
		return d.explain(name, err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	source := &source{ctx: ctx, r: io.TeeReader(f, sum)}
	buffer.Reset(source)
	probe, _ := buffer.Peek(binaryProbe) // source keeps the error
	if bytes.IndexByte(probe, 0) >= 0 {
		return tool.Failure(CodeBinary, "%s is a binary file of %d bytes, not text", show(name), info.Size())
	}
	err = read(name, buffer, info.Size())
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case source.err != nil:
		return d.explain(name, source.err)
	}
	return err
}

// source stops when ctx ends. It keeps its error, to distinguish errors of the file
// from errors of the reader.
type source struct {
	ctx context.Context //nolint:containedctx // lives for one call
	r   io.Reader
	err error
}

// Read reads the file.
func (s *source) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err //nolint:wrapcheck // io.Reader
}

// eachLine calls do for every line of r, numbered from 1, with its newline. A line
// longer than limit is cut.
func eachLine(r *bufio.Reader, limit int, do func(n int, line []byte) error) error {
	var long []byte // the beginning of a line longer than the buffer
	for n := 1; ; {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line[:min(len(line), limit-len(long))]...)
			continue
		}
		if long != nil {
			line = append(long, line[:min(len(line), limit-len(long))]...)
			long = nil
		}
		if len(line) > 0 {
			if err := do(n, line[:min(len(line), limit)]); err != nil {
				return err
			}
			n++
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err //nolint:wrapcheck // text explains it
		}
	}
}
