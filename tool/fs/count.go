package fs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/tool"
)

const defaultCounted = 20

type countInput struct {
	Path    string `json:"path,omitempty" jsonschema:"The directory or file to count in, relative to the root. Default: everything."`
	Include string `json:"include,omitempty" jsonschema:"Count only files that match this glob, for example *.go or docs/**/*.{md,txt}; with a slash it starts from path."`
	Exclude string `json:"exclude,omitempty" jsonschema:"Leave out files and directories that match this glob, for example *_test.go."`
	Sort    string `json:"sort,omitempty" jsonschema:"The order of the files: lines, words or bytes, largest first, or path. Default: lines."`
	Ignored bool   `json:"include_ignored,omitempty" jsonschema:"Also count files that .gitignore excludes, such as build output and dependencies."`
	Limit   int    `json:"limit,omitempty" jsonschema:"How many files to list; all are counted. Default: 20."`
}

// Describe describes the permission request.
func (in countInput) Describe() (kind, summary string, target any) {
	return describe("read", "count in", in.Path)
}

// counted is the structured output of fs_count.
type counted struct {
	Files      []fileCount `json:"files"`
	Total      total       `json:"total"`
	Binary     int         `json:"binary_files_skipped,omitempty"`
	Unreadable int         `json:"unreadable,omitempty"`
	Ignored    int         `json:"left_out_by_gitignore,omitempty"`
}

type fileCount struct {
	Path string `json:"path"`
	size
}

// total is the sum over all files, including those not listed.
type total struct {
	Files int `json:"files"`
	size
}

type size struct {
	Lines int64 `json:"lines"`
	Words int64 `json:"words"`
	Bytes int64 `json:"bytes"`
}

func newCount(d *dir) (tool.Tool, error) {
	return tool.CallFunc("fs_count",
		"Counts lines, words and bytes of text files, except those that .gitignore excludes. Returns JSON: files, the longest first unless sort is set, and total, over all of them. "+
			"Use it for questions about size: which files are the longest, how much code there is, how many files of a kind.",
		bind(d, (*dir).count), tool.ReadOnly(), tool.WithSchema(func(s *jsonschema.Schema) {
			s.Properties["sort"].Enum = []any{"lines", "words", "bytes", "path"}
			between(s, "limit", 1, 1000)
		}))
}

func (d *dir) count(ctx context.Context, in countInput) (counted, error) {
	out := counted{Files: []fileCount{}}
	skip, err := d.files(ctx, selection{in.Path, in.Include, in.Exclude, in.Ignored}, func(name string, r *bufio.Reader, _ int64) error {
		c, err := measure(r)
		if err != nil {
			return err
		}
		out.Files = append(out.Files, fileCount{strings.ToValidUTF8(name, "\uFFFD"), c})
		out.Total.Files++
		out.Total.Lines += c.Lines
		out.Total.Words += c.Words
		out.Total.Bytes += c.Bytes
		return nil
	})
	if err != nil {
		return counted{}, err
	}
	out.Binary, out.Unreadable, out.Ignored = skip.binary, skip.unreadable, skip.ignored
	slices.SortStableFunc(out.Files, in.compare)
	out.Files = out.Files[:min(cmp.Or(in.Limit, defaultCounted), len(out.Files))]
	return out, nil
}

func (in countInput) compare(a, b fileCount) int {
	switch in.Sort {
	case "path":
		return strings.Compare(a.Path, b.Path)
	case "words":
		return cmp.Compare(b.Words, a.Words)
	case "bytes":
		return cmp.Compare(b.Bytes, a.Bytes)
	default:
		return cmp.Compare(b.Lines, a.Lines)
	}
}

// measure counts like wc, except that a last line without a newline is a line.
func measure(r *bufio.Reader) (n size, err error) {
	isSpace := func(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }
	for last := byte('\n'); ; n.Bytes++ {
		b, err := r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			if last != '\n' {
				n.Lines++
			}
			return n, nil
		case err != nil:
			return n, err //nolint:wrapcheck // text explains it
		case b == '\n':
			n.Lines++
		case isSpace(last) && !isSpace(b):
			n.Words++
		}
		last = b
	}
}
