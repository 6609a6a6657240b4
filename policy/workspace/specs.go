package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/relevance"
	"github.com/turnlog/turnlog/internal/textfile"
)

// Bounds of how specifications are chosen.
const (
	maxSpecs = 3     // that a task is shown
	maxFiles = 10000 // that a folder is searched for
)

// Specs are folders of specifications: Markdown files of which a task is shown the
// three whose names and titles have most to do with its goal. Of a specification
// with sections called Purpose, Invariants, Public API or Error Cases a task is
// shown those, of any other the whole.
type Specs struct {
	Root    string   // the folder that the others are in
	Folders []string // relative to Root
}

// Recall returns the specifications that fit the goal, best first. A folder that is
// not there has none.
func (s Specs) Recall(ctx context.Context, goal string) ([]content.Item, error) {
	root, err := os.OpenRoot(s.Root)
	if err != nil {
		return nil, fmt.Errorf("specs: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only read
	var found []spec
	for _, folder := range s.Folders {
		more, err := search(ctx, root.FS(), path.Clean(folder), relevance.Of(goal))
		if err != nil {
			return nil, fmt.Errorf("specs in %s: %w", folder, err)
		}
		found = append(found, more...)
	}
	slices.SortStableFunc(found, func(a, b spec) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.path, b.path))
	})
	found = slices.CompactFunc(found, func(a, b spec) bool { return a.path == b.path })
	found = found[:min(len(found), maxSpecs)]
	items := make([]content.Item, len(found))
	for i, f := range found {
		items[i] = told("Specification that has to be kept", f.path, essence(f.text))
	}
	return items, nil
}

// spec is a file that has to do with the goal.
type spec struct {
	path, text string
	score      int
}

// search finds the files below a folder that share a word with the goal.
func search(ctx context.Context, fsys fs.FS, folder string, goal relevance.Words) ([]spec, error) {
	var found []spec
	files := 0
	err := fs.WalkDir(fsys, folder, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() || !strings.EqualFold(path.Ext(name), ".md"):
			return nil
		}
		if files++; files > maxFiles {
			return fmt.Errorf("more than %d files: name folders that hold specifications", maxFiles)
		}
		text, err := textfile.Read(fsys, name)
		if err != nil {
			return nil //nolint:nilerr // a file that cannot be shown is passed over
		}
		below := strings.TrimSuffix(strings.TrimPrefix(name, folder), path.Ext(name))
		if score := goal.Shared(relevance.Of(below, title(text))); score > 0 {
			found = append(found, spec{path: name, text: text, score: score})
		}
		return nil
	})
	return found, err //nolint:wrapcheck // Recall names the folder
}

// title is the first heading of a text.
func title(text string) string {
	for line := range strings.Lines(text) {
		if _, name, ok := heading(line); ok {
			return name
		}
	}
	return ""
}

// heading takes a heading of Markdown apart.
func heading(line string) (level int, name string, ok bool) {
	line = strings.TrimRight(line, "\r\n")
	rest := strings.TrimLeft(line, "#")
	level = len(line) - len(rest)
	if level == 0 || !strings.HasPrefix(rest, " ") {
		return 0, "", false
	}
	return level, strings.TrimSpace(rest), true
}

// essence are the sections that bind, with their headings; the whole text if it has
// none of them.
func essence(text string) string {
	var b strings.Builder
	within := 0 // the level of the section that is kept; 0: none
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if level, name, ok := heading(line); ok && !fenced && (within == 0 || level <= within) {
			within = 0
			if binding(name) {
				within = level
			}
		}
		if within > 0 {
			b.WriteString(line)
		}
	}
	if b.Len() == 0 {
		return text
	}
	return b.String()
}

func binding(section string) bool {
	switch strings.ToLower(section) {
	case "purpose", "invariants", "public api", "error cases":
		return true
	}
	return false
}
