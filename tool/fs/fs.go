// Package fs offers the files below one directory as tools: list, find, read,
// search and count and, if that is wanted, write, edit, patch and delete.
//
// The one idea: nothing outside of the root can be reached. Every file is opened
// through a [tool.Root], so that neither .. nor an absolute path nor a symbolic
// link leads out, whatever happens to the tree meanwhile. Paths are relative to
// the root, with slashes; an absolute path that lies within it is understood too.
//
// Files are written whole or not at all: under another name first, then renamed; a
// file that is replaced keeps its permissions, and where a symbolic link leads to is
// written, not the link. Edits of one file by the same process don't get into each
// other's way; those of other processes may. fs_patch changes several files or none:
// what it has written is taken back if the rest cannot be, though not by a process
// that is killed in between.
//
// With [Options].ReadFirst a file that exists is changed only by who has read it as it
// is. A reading names the file's version, computed from its content, and a change has
// to give it; so that holds for all workers together, and none keeps a record.
//
// The tools answer in text that is made for a model, short and with the numbers it
// needs to go on; fs_count answers in JSON. Their errors say what to do. Binary
// files are refused, version control's own folders are not searched, and symbolic
// links to directories are not followed on the way down. Nor is what .gitignore and
// .ignore files leave out looked at, unless the call asks for it or begins there; the answer says
// how much that was. Only files below the root have a say in it, not the user's own
// configuration of git.
package fs

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/turnlog/turnlog/tool"
)

// Codes of failures, beside those of package tool.
const (
	CodeKind      = "wrong_kind"    // a file where a directory is wanted, or the other way round
	CodeBinary    = "binary_file"   // not text
	CodeTooLarge  = "file_too_big"  // more than the tool handles
	CodeNotEmpty  = "not_empty"     // a directory with something in it
	CodeUnchanged = "nothing_to_do" // the edit would change nothing
	CodeUnread    = "read_first"    // the file has to be read before it is changed
	CodeChanged   = "changed_since" // the file is not any more what was read
	CodePatch     = "patch_failed"  // the patch is none, or does not fit the files
)

// Options says what the tools may do.
type Options struct {
	Write     bool // offer the tools that change files; zero: only those that read
	ReadFirst bool // what exists is written only with the version that a reading named; zero: as calls like
}

// New returns the tools for the directory root, sorted by name. It returns an
// error if root is not a directory that can be opened. The directory stays open
// for as long as the tools are in use.
func New(root string, opts Options) ([]tool.Tool, error) {
	r, err := tool.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	d := &dir{Root: r, readFirst: opts.ReadFirst}
	makers := []func(*dir) (tool.Tool, error){newCount, newFind, newList, newRead, newSearch}
	if opts.Write {
		makers = append(makers, newDelete, newMakeDirectory, newPatch, newReplace, newWrite)
	}
	var tools []tool.Tool
	for _, newTool := range makers {
		t, err := newTool(d)
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	slices.SortFunc(tools, func(a, b tool.Tool) int { return strings.Compare(a.Spec().Name, b.Spec().Name) })
	return tools, nil
}

// dir is the directory that the tools work in.
type dir struct {
	*tool.Root

	readFirst bool

	mu sync.Mutex // held while a file is read in order to be written
}

// explain says what was wrong with a path and what to do.
func (d *dir) explain(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return tool.Failure(tool.CodeNoFile, "%s does not exist: see what does with fs_list_directory or fs_find", show(name))
	}
	return d.Explain(show(name), err)
}

// regular finds the file of that name. What is not a plain file, a pipe for
// example, might never end.
func (d *dir) regular(name string) (fs.FileInfo, error) {
	info, err := d.Stat(name)
	switch {
	case err != nil:
		return nil, d.explain(name, err)
	case info.IsDir():
		return nil, tool.Failure(CodeKind, "%s is a directory: list it with fs_list_directory, or name a file in it", show(name))
	case !info.Mode().IsRegular():
		return nil, tool.Failure(CodeKind, "%s is not a regular file", show(name))
	}
	return info, nil
}

// show prints a path so that it stays one word of one line.
func show(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) || name == "" {
		return strconv.Quote(name)
	}
	return name
}

// target is what a request for permission is about.
type target struct {
	Path string `json:"path"`
}

func describe(kind, verb, name string) (string, string, any) {
	name = path.Clean(filepath.ToSlash(name))
	return "filesystem." + kind, verb + " " + show(name), target{Path: name}
}
