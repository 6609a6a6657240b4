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

	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/tool"
)

// errStop ends a walk early without an error.
var errStop = errors.New("stop")

// visitFunc visits an entry. below is its path relative to the start of the walk.
type visitFunc func(name, below string, e fs.DirEntry) error

// skipped counts what a walk left out.
type skipped struct {
	unreadable int // files and directories
	ignored    int // files and directories that ignore files exclude
	binary     int // files
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

// walk visits everything below start, sorted by name. If start is a file, it visits
// only that, ignored or not. Without all, it skips what ignore files exclude.
func (d *dir) walk(ctx context.Context, start string, all bool, visit visitFunc) (skip skipped, err error) {
	ignores := d.ignores()
	err = fs.WalkDir(tree{d.FS(), d}, start, func(name string, e fs.DirEntry, err error) error {
		below, inside := strings.TrimPrefix(name, start+"/"), name != start
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !inside:
			return d.explain(start, err)
		case err != nil:
			skip.unreadable++
			return fs.SkipDir
		case !inside && e.IsDir():
			return nil
		case !inside:
			below = path.Base(name)
		case !all && ignores.match(name, e.IsDir()):
			skip.ignored++
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
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
	return skip, err
}

// ownedByVCS reports whether a directory belongs to a version control system. Its
// files are not worth searching.
func ownedByVCS(name string) bool {
	return name == ".git" || name == ".hg" || name == ".svn" || name == ".jj"
}

// selection chooses files below a path.
type selection struct {
	path, include, exclude string
	ignored                bool // include what ignore files exclude
}

func invalid(field string, err error) error {
	return tool.Failure(tool.CodeInvalidArguments, "%s: %v", field, err)
}

// files calls read for every text file of a selection.
func (d *dir) files(ctx context.Context, s selection, read readFunc) (skipped, error) {
	start, err := d.Rel(s.path)
	if err != nil {
		return skipped{}, err
	}
	include, err := parseGlob(s.include)
	if err != nil {
		return skipped{}, invalid("include", err)
	}
	exclude, err := parseGlob(s.exclude)
	if err != nil {
		return skipped{}, invalid("exclude", err)
	}
	buffer, binary, unreadable := newBuffer(), 0, 0
	skip, err := d.walk(ctx, start, s.ignored, func(name, below string, e fs.DirEntry) error {
		if exclude != nil && exclude.match(below) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() || include != nil && !include.match(below) {
			return nil
		}
		if d.unlinked && linked(e) {
			unreadable++
			return nil
		}
		err := d.text(ctx, name, buffer, read)
		problem, ok := errors.AsType[*tool.Error](err)
		switch {
		case !ok:
			return err
		case problem.Code == CodeBinary:
			binary++
		default:
			unreadable++
		}
		return nil
	})
	skip.binary += binary
	skip.unreadable += unreadable
	return skip, err
}

// linked reports whether a file has several names, or is gone.
func linked(e fs.DirEntry) bool {
	info, err := e.Info()
	return err != nil || textfile.Linked(info)
}

// readFunc reads the content of a file of size bytes.
type readFunc func(name string, r *bufio.Reader, size int64) error

// binaryProbe is how many bytes decide whether a file is text.
const binaryProbe = 8000

func newBuffer() *bufio.Reader { return bufio.NewReaderSize(nil, 64<<10) }

// text reads a text file through buffer. A problem with the file becomes a [tool.Error]; other errors
// from read are returned unchanged.
func (d *dir) text(ctx context.Context, name string, buffer *bufio.Reader, read readFunc) error {
	f, info, err := d.open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written
	source := &source{ctx: ctx, r: f}
	buffer.Reset(source)
	probe, _ := buffer.Peek(binaryProbe) // source keeps the error
	if bytes.IndexByte(probe, 0) >= 0 {
		return tool.Failure(CodeBinary, "%s is a binary file of %d bytes, not text", show(name), info.Size())
	}
	if err = read(name, buffer, info.Size()); source.err != nil && ctx.Err() == nil {
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
