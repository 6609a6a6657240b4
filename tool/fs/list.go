package fs

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/tool"
)

const maxEntries = 1000

type listInput struct {
	Path    string `json:"path,omitempty" jsonschema:"The directory, relative to the root. Default: the root."`
	Depth   int    `json:"depth,omitempty" jsonschema:"How many levels to show. Default: 1, only what is directly in the directory."`
	Ignored bool   `json:"include_ignored,omitempty" jsonschema:"Also list the contents of directories that .gitignore excludes; otherwise only their names."`
}

// Describe describes the permission request.
func (in listInput) Describe() (kind, summary string, target any) {
	return describe("list", "list", in.Path)
}

func newList(d *dir) (tool.Tool, error) {
	return tool.CallFunc("fs_list_directory",
		"Lists a directory, sorted by name, one path per line: directories end with a slash, and files are followed by their size in bytes. "+
			"Use it to get an overview; with depth it shows subdirectories too. To look for names, use fs_find; for content, fs_search.",
		bind(d, (*dir).list), tool.ReadOnly(), tool.WithSchema(func(s *jsonschema.Schema) { between(s, "depth", 1, 20) }))
}

func (d *dir) list(ctx context.Context, in listInput) (string, error) {
	start, err := d.Rel(in.Path)
	if err != nil {
		return "", err
	}
	info, err := d.Stat(start)
	if err != nil {
		return "", d.explain(start, err)
	}
	if !info.IsDir() {
		return "", tool.Failure(CodeKind, "%s is a file of %d bytes: read it with fs_read_file", show(start), info.Size())
	}
	depth := max(in.Depth, 1)
	var b strings.Builder
	entries, ignores := 0, d.ignores()
	w, err := d.walk(ctx, start, true, func(name, below string, e fs.DirEntry) error {
		if entries++; entries > maxEntries {
			return errStop
		}
		b.WriteString(d.entry(name, e))
		if e.IsDir() && (strings.Count(below, "/")+1 >= depth || !in.Ignored && ignores.match(name, true)) {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	switch {
	case entries == 0 && w.unreadable == 0:
		return show(start) + " is empty\n", nil
	case entries > maxEntries:
		fmt.Fprintf(&b, "[stopped after %d entries: list a subdirectory, use less depth, or use fs_find]\n", maxEntries)
	}
	if w.unreadable > 0 {
		fmt.Fprintf(&b, "[directories that could not be read: %d]\n", w.unreadable)
	}
	return b.String(), nil
}

func (d *dir) entry(name string, e fs.DirEntry) string {
	switch {
	case e.IsDir():
		return show(name) + "/\n"
	case e.Type()&fs.ModeSymlink != 0:
		to, err := d.Readlink(name)
		if err != nil {
			to = "?"
		}
		return show(name) + " -> " + show(to) + "\n"
	}
	info, err := e.Info()
	if err != nil { // it was deleted meanwhile
		return show(name) + "\n"
	}
	if !info.Mode().IsRegular() {
		return show(name) + " (not a regular file)\n"
	}
	return fmt.Sprintf("%s (%d bytes)\n", show(name), info.Size())
}

// between limits a numeric property.
func between(s *jsonschema.Schema, name string, low, high float64) {
	s.Properties[name].Minimum, s.Properties[name].Maximum = &low, &high
}
