package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Root is the directory that a tool works in. Files opened through it are always
// below it, wherever symbolic links lead. Rel converts the paths that models give.
type Root struct {
	*os.Root

	names   []string // its absolute names: with symbolic links resolved, and as given
	escapes error    // what os.Root returns for a path that leads out
}

// OpenRoot opens a directory.
func OpenRoot(name string) (*Root, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("root %s: no such directory: create it or name another one", name)
	case err != nil:
		return nil, fmt.Errorf("root %s: %w", name, cause(err))
	case !info.IsDir():
		return nil, fmt.Errorf("root %s: not a directory: name the directory to work in", name)
	}
	given, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("root %s: %w", name, err)
	}
	plain, err := filepath.EvalSymlinks(given)
	if err != nil {
		return nil, fmt.Errorf("root %s: %w", name, cause(err))
	}
	root, err := os.OpenRoot(plain)
	if err != nil {
		return nil, fmt.Errorf("root %s: %w", name, cause(err))
	}
	r := &Root{Root: root, names: []string{plain, given}}
	_, err = root.Lstat("..") // package os does not export this error
	r.escapes = cause(err)
	return r, nil
}

// Dir returns the absolute name of the directory, with symbolic links resolved.
func (r *Root) Dir() string { return r.names[0] }

// maxDepth is how many names a path may have. To create directories, an [os.Root]
// walks down from its top for each name, which takes seconds for thousands.
const maxDepth = 255

// Rel returns a path relative to the root, with slashes. The empty path is the root
// itself, and an absolute path must be within the root. It returns an [*Error], with
// [CodeDenied] for a path that leads out.
func (r *Root) Rel(path string) (string, error) {
	for _, root := range r.names {
		rel, ok := within(root, path)
		if !ok {
			continue
		}
		rel = filepath.ToSlash(rel)
		if strings.Count(rel, "/") >= maxDepth {
			return "", Failure(CodeFileSystem, "path of %d bytes: too deep: it has more than %d names", len(path), maxDepth)
		}
		return rel, nil
	}
	return "", Denied("path %q is outside the root: use a path relative to it", path)
}

func within(root, path string) (string, bool) {
	rel := filepath.FromSlash(path)
	if filepath.IsAbs(rel) {
		var err error
		if rel, err = filepath.Rel(root, rel); err != nil {
			return "", false
		}
	}
	rel = filepath.Clean(rel)
	return rel, filepath.IsLocal(rel)
}

// Subdir returns the absolute name of a directory below the root. It returns an
// [*Error] if there is none at path.
func (r *Root) Subdir(path string) (string, error) {
	rel, err := r.Rel(path)
	if err != nil {
		return "", err
	}
	info, err := r.Stat(rel)
	switch {
	case err != nil:
		return "", r.Explain("cwd: "+rel, err)
	case !info.IsDir():
		return "", Failure(CodeFileSystem, "cwd: %s is not a directory", rel)
	}
	return filepath.Join(r.names[0], filepath.FromSlash(rel)), nil
}

// Explain turns an error about a path into an [*Error] that a model understands.
func (r *Root) Explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Failure(CodeNoFile, "%s does not exist", path)
	case errors.Is(err, r.escapes):
		return Denied("%s leads out of the root through a symbolic link, which is not followed", path)
	default:
		return Failure(CodeFileSystem, "%s: %v", path, cause(err))
	}
}

// cause strips the operation and the path from an error of package os, which would
// show implementation details.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
