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

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/textfile"
)

const (
	maxFile   = 100 << 20 // bytes of a file
	maxFiles  = 20        // of one input
	maxInline = 48 << 10  // total bytes of files within the input
	maxSealed = 16 << 20  // the same for a sealed session, where all files are within the input
)

// fileFlag names the files of an input.
type fileFlag struct {
	paths []string
}

func (f *fileFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.paths, "file", nil, "attach the file at this `path`, of 100 MiB at most; repeat it for more")
	_ = cmd.MarkFlagFilename("file") // the flag exists
}

// attached is a file to attach. It is checked before connecting, so that a wrong path is
// reported at once.
type attached struct {
	path string
	mime string
	size int64
}

// input returns the input of the command line: its files and its text.
func (f *fileFlag) input(ctx context.Context, a *app.App, words []string) (in input, err error) {
	if in.files, err = f.look(); err == nil {
		in.text, err = a.Prompt(ctx, words)
	}
	return in, err
}

// look checks that all files can be attached.
func (f *fileFlag) look() ([]attached, error) {
	if len(f.paths) > maxFiles {
		return nil, cli.Usage("--file: %d files, but an input takes at most %d", len(f.paths), maxFiles)
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
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return attached{}, cause(err)
	case info.IsDir():
		return attached{}, errors.New("it is a directory: attach its files")
	case !info.Mode().IsRegular():
		return attached{}, errors.New("it is not a regular file")
	case info.Size() == 0:
		return attached{}, errors.New("it is empty")
	case info.Size() > maxFile:
		return attached{}, fmt.Errorf("it has %d bytes, more than %d MiB: put it where tools can read it, and give its path in the prompt", info.Size(), maxFile>>20)
	}
	file, err := textfile.Open(path)
	if err != nil {
		return attached{}, cause(err)
	}
	defer func() { _ = file.Close() }() // only read
	head, err := io.ReadAll(io.LimitReader(file, maxInline))
	if err != nil {
		return attached{}, cause(err)
	}
	return attached{path: path, mime: mimeOf(path, head), size: info.Size()}, nil
}

// cause returns an error without the path, which the caller adds.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// mimeOf returns the type of a file by its first bytes, or by its name if those are vague.
func mimeOf(path string, head []byte) string {
	sniffed, _, _ := strings.Cut(http.DetectContentType(head), ";")
	named, _, _ := strings.Cut(mime.TypeByExtension(strings.ToLower(filepath.Ext(path))), ";")
	vague := sniffed == "application/octet-stream" || sniffed == "application/zip"
	kind := cmp.Or(named, sniffed)
	switch {
	case !vague && !content.Textual(sniffed):
		return sniffed
	case isText(head) && content.Textual(kind) && content.Modality(kind) == "document":
		return kind
	case isText(head): // also SVG, which no model accepts as an image
		return "text/plain"
	case content.Textual(sniffed) || content.Textual(named): // text types need valid text
		return "application/octet-stream"
	}
	return kind
}

// isText reports whether the start of a file is UTF-8 text.
func isText(head []byte) bool {
	for range utf8.UTFMax - 1 { // it may end inside a character
		if utf8.Valid(head) || len(head) == 0 {
			break
		}
		head = head[:len(head)-1]
	}
	return utf8.Valid(head) && bytes.IndexByte(head, 0) < 0
}

// attachFiles turns the files of an input into parts. Files go into the input while there is room.
// The others are stored with the deployment and referenced.
func (v *conversation) attachFiles(ctx context.Context, in *input, room int64) error {
	in.parts = nil
	return v.Interruptible(ctx, func(ctx context.Context) error {
		sealed := in.seal
		if v.session != nil {
			var err error
			if sealed, err = v.client.IsSealed(ctx, v.id); err != nil {
				return err
			}
		}
		if sealed { // stored files are not sealed
			room = maxSealed
		}
		for _, f := range in.files {
			if sealed && f.size > room {
				return app.Failed(cli.CodeFailed, "attach %s: the files in one input of a sealed session can have at most %d MiB", f.path, maxSealed>>20)
			}
			p, err := f.part(ctx, v.client, &room)
			if err != nil {
				return fmt.Errorf("attach %s: %w", f.path, cause(err))
			}
			if f.size > engine.MaxAttached {
				v.Hint("%s has more than %d MiB: it is stored, but models only see its name", f.path, engine.MaxAttached>>20)
			}
			in.parts = append(in.parts, p)
		}
		return nil
	})
}

// part reads the file, up to its size when it was checked.
func (f attached) part(ctx context.Context, c *client.Client, room *int64) (content.Part, error) {
	file, err := textfile.Open(f.path)
	if err != nil {
		return content.Part{}, err
	}
	defer func() { _ = file.Close() }() // only read
	src, name := io.NewSectionReader(file, 0, f.size), strings.ToValidUTF8(filepath.Base(f.path), "\uFFFD")
	if f.size > *room {
		return c.StoreFile(ctx, name, f.mime, src)
	}
	*room -= f.size
	data, err := io.ReadAll(src)
	return content.FilePart(name, f.mime, data), err
}
