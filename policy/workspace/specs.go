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

// Limits of the search for specifications.
const (
	maxSpecs = 3     // for one task
	maxFiles = 10000 // in one folder
)

// Specs are folders of specifications in Markdown. A task recalls the three files whose names and
// titles are most similar to its goal. If a specification has sections called Purpose, Invariants,
// Public API or Error Cases, only those sections are returned.
type Specs struct {
	Root    string   // contains the folders
	Folders []string // relative to Root
}

// Recall returns the specifications that match the goal, best first. A missing folder has
// none.
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
		items[i] = itemOf("Specification to follow", f.path, essence(f.text))
	}
	return items, nil
}

// spec is a file that matches the goal.
type spec struct {
	path, text string
	score      int
}

// search returns the files below a folder that share a word with the goal.
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
			return fmt.Errorf("more than %d files: name folders that contain only specifications", maxFiles)
		}
		text, err := textfile.Read(fsys, name)
		if err != nil {
			return nil //nolint:nilerr // unreadable files are skipped
		}
		below := strings.TrimSuffix(strings.TrimPrefix(name, folder), path.Ext(name))
		if score := goal.Shared(relevance.Of(below, title(text))); score > 0 {
			found = append(found, spec{path: name, text: text, score: score})
		}
		return nil
	})
	return found, err //nolint:wrapcheck // Recall names the folder
}

// title returns the first heading of a text.
func title(text string) string {
	for line := range strings.Lines(text) {
		if _, name, ok := heading(line); ok {
			return name
		}
	}
	return ""
}

// heading parses a Markdown heading.
func heading(line string) (level int, name string, ok bool) {
	line = strings.TrimRight(line, "\r\n")
	rest := strings.TrimLeft(line, "#")
	level = len(line) - len(rest)
	if level == 0 || !strings.HasPrefix(rest, " ") {
		return 0, "", false
	}
	return level, strings.TrimSpace(rest), true
}

// essence returns the binding sections with their headings; the whole text if it has none.
func essence(text string) string {
	var b strings.Builder
	within := 0 // level of the current binding section; 0: none
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
	return slices.Contains([]string{"purpose", "invariants", "public api", "error cases"}, strings.ToLower(section))
}
