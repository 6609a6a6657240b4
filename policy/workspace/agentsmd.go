package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/textfile"
)

// agentsFile is the name by which the field knows such files.
const agentsFile = "AGENTS.md"

// Which says which AGENTS.md files count.
type Which string

// The choices.
const (
	Nearest Which = "nearest" // the one in the folder, or in the nearest one above it that has one
	All     Which = "all"     // that one and those above it, outermost first
)

// AgentsMD returns the AGENTS.md files that hold for a folder, each as one Context
// item. It looks into the folder and those above it, up to the top of the repository
// that the folder is in. Outside of a repository it looks nowhere else: what lies
// about above it may be anybody's. A folder without such files has none.
func AgentsMD(folder string, which Which) ([]content.Item, error) {
	if which != Nearest && which != All {
		return nil, fmt.Errorf("agents_md %q: use nearest or all", which)
	}
	abs, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", agentsFile, folder, err)
	}
	var items []content.Item
	for _, dir := range ancestry(abs) {
		text, err := readText(dir, agentsFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, agentsFile), err)
		}
		path, err := filepath.Rel(abs, filepath.Join(dir, agentsFile))
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", agentsFile, folder, err)
		}
		items = append(items, told("Instructions for agents", filepath.ToSlash(path), text))
		if which == Nearest {
			break
		}
	}
	slices.Reverse(items)
	return items, nil
}

// ancestry is the folder and those above it that count, from the inside.
func ancestry(dir string) []string {
	var all []string
	for at := dir; ; {
		all = append(all, at)
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return all
		}
		up := filepath.Dir(at)
		if up == at {
			return []string{dir}
		}
		at = up
	}
}

// readText reads a file of text below a folder.
func readText(dir, name string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err //nolint:wrapcheck // both callers name the file
	}
	defer func() { _ = root.Close() }() // it was only read
	return textfile.Read(root.FS(), name)
}

// Keys of the metadata of the items.
const (
	MetaSource = "source" // what kind of file the text is from
	MetaPath   = "path"   // of the file, relative to the folder
)

// told is what a file says, as an item.
func told(source, path, text string) content.Item {
	it := content.NewItem(content.Context, content.TextPart(fmt.Sprintf("%s, from the file %s:\n\n%s", source, path, text)))
	it.Metadata = it.Metadata.With(MetaSource, source).With(MetaPath, path)
	return it
}

// Instructions tell planning of the AGENTS.md files that hold for a folder: a task
// begins with a context of its own.
type Instructions struct {
	Folder string
	Which  Which
}

// Recall returns the files, whatever the goal.
func (i Instructions) Recall(context.Context, string) ([]content.Item, error) {
	return AgentsMD(i.Folder, i.Which)
}
