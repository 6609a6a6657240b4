package fs

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/tool"
)

const defaultFound = 200

type findInput struct {
	Glob    string `json:"glob" jsonschema:"The names to look for, for example *_test.go, cmd/**/main.go or *.{yml,yaml}. Without a slash it matches the last name of a path; with one it starts from path."`
	Path    string `json:"path,omitempty" jsonschema:"The directory to look in, relative to the root. Default: everywhere."`
	Type    string `json:"type,omitempty" jsonschema:"Find only files or only directories. Default: both."`
	Ignored bool   `json:"include_ignored,omitempty" jsonschema:"Also find what .gitignore excludes, such as build output and dependencies."`
	Limit   int    `json:"limit,omitempty" jsonschema:"Stop after this many. Default: 200."`
}

// Describe describes the permission request.
func (in findInput) Describe() (kind, summary string, target any) {
	return describe("list", "find names in", in.Path)
}

func newFind(d *dir) (tool.Tool, error) {
	return tool.CallFunc("fs_find",
		"Finds files and directories by name, anywhere below a directory, except what .gitignore excludes. Returns one path per line, sorted; directories end with a slash. "+
			"The last line is a summary. To look for content, use fs_search.",
		bind(d, (*dir).find), tool.ReadOnly(), tool.WithSchema(func(s *jsonschema.Schema) {
			s.Properties["glob"].MinLength = new(1)
			s.Properties["type"].Enum = []any{"file", "directory"}
			between(s, "limit", 1, 5000)
		}))
}

func (d *dir) find(ctx context.Context, in findInput) (string, error) {
	start, err := d.Rel(in.Path)
	if err != nil {
		return "", err
	}
	g, err := parseGlob(in.Glob)
	if err != nil {
		return "", invalid("glob", err)
	}
	limit := cmp.Or(in.Limit, defaultFound)
	var b strings.Builder
	seen, found := 0, 0
	skip, err := d.walk(ctx, start, in.Ignored, func(name, below string, e fs.DirEntry) error {
		seen++
		if in.Type != "" && e.IsDir() != (in.Type == "directory") || !g.match(below) {
			return nil
		}
		if found == limit {
			found++
			return errStop
		}
		found++
		b.WriteString(show(name))
		if e.IsDir() {
			b.WriteByte('/')
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		return "", err
	}
	switch {
	case found == 0:
		return fmt.Sprintf("nothing matches among %d names%s\n", seen, skip), nil
	case found > limit:
		fmt.Fprintf(&b, "[stopped after %d: narrow the glob or the path, or raise limit]\n", limit)
	default:
		fmt.Fprintf(&b, "[found: %d of %d names%s]\n", found, seen, skip)
	}
	return b.String(), nil
}
