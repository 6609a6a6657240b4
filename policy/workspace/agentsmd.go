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

// agentsFile is the conventional name of instructions for agents.
const agentsFile = "AGENTS.md"

// Which says which AGENTS.md files to read.
type Which string

// The choices.
const (
	Nearest Which = "nearest" // the file in the folder, or in its nearest parent that has one
	All     Which = "all"     // that file and the files of its parents, outermost first
)

// AgentsMD returns the AGENTS.md files for a folder, each as one Context item; none if there
// are no such files. It looks in the folder and its parents, up to the root of the
// repository. Outside of a repository it looks only in the folder, since its parents may
// belong to other users.
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
		items = append(items, itemOf("Instructions for agents", filepath.ToSlash(path), text))
		if which == Nearest {
			break
		}
	}
	slices.Reverse(items)
	return items, nil
}

// ancestry returns the folder and the parents to look in, innermost first.
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

// readText reads a text file below a folder.
func readText(dir, name string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err //nolint:wrapcheck // the caller names the file
	}
	defer func() { _ = root.Close() }() // it was only read
	return textfile.Read(root.FS(), name)
}

// Keys of the metadata of the items.
const (
	MetaSource = "source" // the kind of file
	MetaPath   = "path"   // of the file, relative to the folder
)

func itemOf(source, path, text string) content.Item {
	it := content.NewItem(content.Context, content.TextPart(fmt.Sprintf("%s, from the file %s:\n\n%s", source, path, text)))
	it.Metadata = it.Metadata.With(MetaSource, source).With(MetaPath, path)
	return it
}

// Instructions recalls the AGENTS.md files for a folder when a task is planned, since a task
// has its own context.
type Instructions struct {
	Folder string
	Which  Which
}

// Recall returns the files, for any goal.
func (i Instructions) Recall(context.Context, string) ([]content.Item, error) {
	return AgentsMD(i.Folder, i.Which)
}
