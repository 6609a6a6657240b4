package talk

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
)

const (
	maxFile   = 100 << 20 // bytes of a file that is attached
	maxFiles  = 20        // of one input
	maxInline = 48 << 10  // bytes of files that the input holds itself, all in all
)

// fileFlag names the files that come with an input.
type fileFlag struct {
	paths []string
}

func (f *fileFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.paths, "file", nil, "attach the file at this `path`, of 100 MiB at most; repeat it for more")
	_ = cmd.MarkFlagFilename("file") // fails only for a flag that is not there
}

// attached is a file that is to be attached. The connection to a deployment comes after
// the first look at it, so that a wrong path is told at once.
type attached struct {
	path string
	mime string
	size int64
}

// look looks at all files.
func (f *fileFlag) look() ([]attached, error) {
	if len(f.paths) > maxFiles {
		return nil, cli.Usage("--file: %d files, but an input takes %d at most", len(f.paths), maxFiles)
	}
	var out []attached
	for _, path := range f.paths {
		file, err := examine(path)
		if err != nil {
			return nil, cli.Usage("--file %q: %w", path, err)
		}
		out = append(out, file)
	}
	return out, nil
}

func examine(path string) (attached, error) {
	info, err := os.Stat(path) // before it is opened: a pipe would not open until somebody writes
	switch {
	case err != nil:
		return attached{}, cause(err)
	case info.IsDir():
		return attached{}, errors.New("it is a directory: attach its files")
	case !info.Mode().IsRegular():
		return attached{}, errors.New("it is no regular file")
	case info.Size() == 0:
		return attached{}, errors.New("it is empty")
	case info.Size() > maxFile:
		return attached{}, fmt.Errorf("it has %d bytes, more than %d MiB: leave it where tools reach it, and say where", info.Size(), maxFile>>20)
	}
	file, err := os.Open(path)
	if err != nil {
		return attached{}, cause(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	head, err := io.ReadAll(io.LimitReader(file, maxInline))
	if err != nil {
		return attached{}, cause(err)
	}
	return attached{path: path, mime: mimeOf(path, head), size: info.Size()}, nil
}

// cause is an error without the path, which is told already.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// mimeOf is the type of a file by its first bytes, or by its name where these say little.
func mimeOf(path string, head []byte) string {
	sniffed, _, _ := strings.Cut(http.DetectContentType(head), ";")
	named, _, _ := strings.Cut(mime.TypeByExtension(strings.ToLower(filepath.Ext(path))), ";")
	vague := sniffed == "application/octet-stream" || sniffed == "application/zip"
	switch {
	case !vague && !content.Textual(sniffed):
		return sniffed
	case isText(head) && content.Textual(cmp.Or(named, sniffed)):
		return cmp.Or(named, sniffed)
	case isText(head):
		return "text/plain"
	case content.Textual(sniffed) || content.Textual(named): // it looks like a text, and is none
		return "application/octet-stream"
	}
	return cmp.Or(named, sniffed)
}

// isText reports whether a file that begins like that is text in UTF-8.
func isText(head []byte) bool {
	for range utf8.UTFMax - 1 { // it may end within a character
		if utf8.Valid(head) || len(head) == 0 {
			break
		}
		head = head[:len(head)-1]
	}
	return utf8.Valid(head) && bytes.IndexByte(head, 0) < 0
}

// enclose makes parts of an input of files: what is small the input holds, and what is
// large is stored with the cell, a piece at a time, and named.
func (a talker) enclose(ctx context.Context, cell *jetstream.Cell, files []attached) ([]content.Part, error) {
	return a.encloseIn(ctx, cell, files, maxInline)
}

// encloseIn is enclose for an input that has room for so many bytes.
func (a talker) encloseIn(ctx context.Context, cell *jetstream.Cell, files []attached, room int64) ([]content.Part, error) {
	var parts []content.Part
	err := a.Interruptible(ctx, func(ctx context.Context) error {
		for _, f := range files {
			p, err := f.part(ctx, cell.Blobs(), &room)
			if err != nil {
				return fmt.Errorf("attach %s: %w", f.path, cause(err))
			}
			if f.size > engine.MaxAttached {
				a.Hint("%s has more than %d MiB: it is kept, but models are only told of it", f.path, engine.MaxAttached>>20)
			}
			parts = append(parts, p)
		}
		return nil
	})
	return parts, err
}

// part reads the file, as much as it had when it was looked at.
func (f attached) part(ctx context.Context, blobs *jetstream.Blobs, room *int64) (content.Part, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return content.Part{}, err
	}
	defer func() { _ = file.Close() }() // it was only read
	src, name := io.NewSectionReader(file, 0, f.size), strings.ToValidUTF8(filepath.Base(f.path), "\uFFFD")
	if f.size <= *room {
		*room -= f.size
		data, err := io.ReadAll(src)
		return content.FilePart(name, f.mime, data), err
	}
	id, size, err := blobs.PutFrom(ctx, src)
	return content.BlobPart(name, f.mime, id, size), err
}
