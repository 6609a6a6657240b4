package fs

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// The maximum that one call reads.
const (
	maxReadLines = 2000
	maxReadBytes = 256 << 10
)

type readInput struct {
	Path  string `json:"path" jsonschema:"The file, relative to the root."`
	First int    `json:"first_line,omitempty" jsonschema:"The first line to read, counted from 1. Default: the beginning of the file."`
	Last  int    `json:"last_line,omitempty" jsonschema:"The last line to read. Default: the end of the file."`
}

// Describe describes the permission request.
func (in readInput) Describe() (kind, summary string, target any) {
	return describe("read", "read", in.Path)
}

func newRead(d *dir) (tool.Tool, error) {
	return tool.CallFunc("fs_read_file",
		fmt.Sprintf("Reads a text file, or a range of its lines. The first line of the result says which lines follow, how many the file has, "+
			"and where to continue; the content follows unchanged. One call reads up to %d lines or %d KiB.", maxReadLines, maxReadBytes>>10),
		bind(d, (*dir).read), tool.ReadOnly(), tool.WithSchema(func(s *jsonschema.Schema) {
			s.Properties["first_line"].Minimum, s.Properties["last_line"].Minimum = new(1.0), new(1.0)
		}))
}

func (d *dir) read(ctx context.Context, in readInput) (string, error) {
	name, err := d.Rel(in.Path)
	if err != nil {
		return "", err
	}
	p := page{first: max(in.First, 1), last: in.Last}
	if p.last != 0 && p.last < p.first {
		return "", invalid("last_line", fmt.Errorf("is %d, before first_line, which is %d", p.last, p.first))
	}
	var size int64
	sum := sha256.New()
	err = d.text(ctx, name, newBuffer(), func(_ string, r *bufio.Reader, n int64) error {
		size = n
		return eachLine(bufio.NewReader(io.TeeReader(r, sum)), maxReadBytes+1, p.add)
	})
	switch {
	case err != nil:
		return "", err
	case p.lines == 0:
		return show(name) + " is empty" + d.versioned(sum) + "\n", nil
	case p.first > p.lines:
		return "", invalid("first_line", fmt.Errorf("is %d, but %s has %d lines", p.first, show(name), p.lines))
	}
	return p.render(name, size, d.versioned(sum)), nil
}

// page collects the requested lines and counts all lines.
type page struct {
	first, last int // last 0: to the end

	content strings.Builder
	lines   int  // of the whole file
	shown   int  // the last line in content
	full    bool // no more lines fit
	cut     bool // the last line shown is incomplete
}

func (p *page) add(n int, line []byte) error {
	p.lines = n
	if n < p.first || p.last != 0 && n > p.last || p.full {
		return nil
	}
	room := maxReadBytes - p.content.Len()
	switch {
	case n-p.first >= maxReadLines, len(line) > room && n > p.first:
		p.full = true
		return nil
	case len(line) > room:
		line, p.cut, p.full = content.Cut(line, room), true, true
	}
	p.content.Write(line)
	p.shown = n
	return nil
}

func (p *page) render(name string, size int64, version string) string {
	text := p.content.String()
	valid := strings.ToValidUTF8(text, "\uFFFD")
	var notes []string
	if p.cut {
		notes = append(notes, fmt.Sprintf("line %d is too long and was cut", p.shown))
	}
	if p.shown < p.lines && (p.last == 0 || p.shown < p.last) {
		notes = append(notes, fmt.Sprintf("continue with first_line %d", p.shown+1))
	}
	if valid != text {
		notes = append(notes, "bytes that are not UTF-8 are shown as \uFFFD")
	}
	header := fmt.Sprintf("%s: lines %d to %d of %d (%d bytes)%s", show(name), p.first, p.shown, p.lines, size, version)
	return strings.Join(append([]string{header}, notes...), "; ") + "\n" + valid
}

// maxEdit is the size of the largest file that can be edited.
const maxEdit = 16 << 20

var errTooLarge = errors.New("too large")

// whole reads a text file for editing.
func (d *dir) whole(ctx context.Context, name string) (string, error) {
	var content strings.Builder
	err := d.text(ctx, name, newBuffer(), func(_ string, r *bufio.Reader, _ int64) error {
		n, err := io.Copy(&content, io.LimitReader(r, maxEdit+1))
		if err == nil && n > maxEdit {
			err = errTooLarge
		}
		return err
	})
	if errors.Is(err, errTooLarge) {
		return "", tool.Failure(CodeTooLarge, "%s is larger than %d MiB, too large to edit", show(name), maxEdit>>20)
	}
	return content.String(), err
}
