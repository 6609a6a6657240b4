// Package fs offers the files below a directory as tools: list, find, read, search
// and count and, optionally, write, edit, patch and delete.
//
// Nothing outside the root can be reached. Every file is opened through a [tool.Root], so
// neither .. nor an absolute path nor a symbolic link leads out, even if the tree changes
// meanwhile. Paths are relative to the root, with slashes; an absolute path within the
// root works too. Policies that judge a call judge each place again when it is opened, so
// links that change meanwhile cannot bypass a denial.
//
// Writes are atomic: a temporary file is renamed. A replaced file keeps its
// permissions, and a write through a symbolic link changes the link's target. Edits
// by one process never interleave; those of several processes may. fs_patch changes
// all of its files or none: if one write fails, it undoes the others, unless the
// process is killed in between.
//
// With [Options].ReadFirst, only a caller that has read a file can change it. Reading
// returns the file's version, computed from its content, and a change has to present
// it. This holds across workers, and none keeps a record.
//
// Results are short text for a model, with the numbers that it needs to continue;
// fs_count returns JSON. Errors say what to do. Binary files are refused, the folders
// of version control are not searched, and walks follow no symbolic links to
// directories. Walks also leave out what .gitignore files below the root exclude, unless
// the call includes it or starts there, and report how much they left out.
package fs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/tool"
)

// Failure codes, in addition to those of package tool.
const (
	CodeKind      = "wrong_kind"    // a file where a directory is needed, or the reverse
	CodeBinary    = "binary_file"   // not text
	CodeTooLarge  = "file_too_big"  // larger than the tool handles
	CodeNotEmpty  = "not_empty"     // a directory that has entries
	CodeUnchanged = "nothing_to_do" // the edit would change nothing
	CodeUnread    = "read_first"    // the file must be read before it is changed
	CodeChanged   = "changed_since" // the file has changed since it was read
	CodePatch     = "patch_failed"  // the patch is invalid or does not apply
)

// Options configures [New].
type Options struct {
	Write     bool // offer the tools that change files
	ReadFirst bool // an existing file can be changed only with the version that reading it returned
	Unlinked  bool // searches leave out files with several names, by hard links, since a policy protects some names
}

// New returns the tools for the directory root, sorted by name. It returns an error
// if root cannot be opened. The directory stays open as long as the tools are in use.
func New(root string, opts Options) ([]tool.Tool, error) {
	r, err := tool.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	d := &dir{Root: r, readFirst: opts.ReadFirst, unlinked: opts.Unlinked, mu: new(sync.Mutex)}
	makers := []func(*dir) (tool.Tool, error){newCount, newFind, newList, newRead, newSearch}
	if opts.Write {
		makers = append(makers, newDelete, newPatch, newReplace, newWrite)
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
	unlinked  bool
	permit    func(kind, name string) error // asks the policies of a call; nil: it has none

	mu *sync.Mutex // held from reading a file until it is written
}

// explain returns an error about a path that says what to do.
func (d *dir) explain(name string, err error) error {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	if errors.Is(err, fs.ErrNotExist) {
		return tool.Failure(tool.CodeNoFile, "%s does not exist: use fs_list_directory or fs_find to see what does", show(name))
	}
	return d.Explain(show(name), err)
}

// regular returns the info of a regular file. Reading anything else, such as a pipe,
// might never end.
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

// open opens a regular file. The file at a path may change, so it checks again after the open. The open
// does not wait for the writer of a pipe.
func (d *dir) open(name string) (*os.File, fs.FileInfo, error) {
	if _, err := d.regular(name); err != nil {
		return nil, nil, err
	}
	f, info, err := d.reach("read", name, textfile.OpenIn)
	if err != nil {
		return nil, nil, d.explain(name, err)
	}
	return f, info, nil
}

// show formats a path so that it stays on one line.
func show(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) || name == "" {
		return strconv.Quote(name)
	}
	return name
}

// target is what a permission request is about.
type target struct {
	Path string `json:"path"`
}

func describe(kind, verb, name string) (string, string, any) {
	name = path.Clean(filepath.ToSlash(name))
	return "filesystem." + kind, verb + " " + show(name), target{Path: name}
}
