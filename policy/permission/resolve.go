package permission

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks limits the symbolic links of one path, as operating systems do.
const maxLinks = 255

const separator = string(filepath.Separator)

// resolve returns where an absolute path leads, name by name like the operating system. It
// follows symbolic links, even to missing targets, and keeps names that do not exist yet.
func resolve(path string) (string, error) {
	at, rest := begin(path)
	links := 0
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0]) // its parent, for ".."
		rest = rest[1:]
		to, err := follow(next)
		if err != nil {
			return "", err
		}
		if to == "" {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		names := split(to)
		if filepath.IsAbs(to) {
			at, names = begin(to)
		}
		rest = append(names, rest...)
	}
	return at, nil
}

// follow returns the target of a symbolic link; "" for anything else, even if missing.
func follow(name string) (string, error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("resolve: %w", err)
	case info.Mode()&fs.ModeSymlink == 0:
		return "", nil
	}
	to, err := os.Readlink(name)
	if err != nil {
		return "", fmt.Errorf("resolve: %w", err)
	}
	return to, nil
}

// begin returns the root of an absolute path and the names below it.
func begin(path string) (at string, names []string) {
	volume := filepath.VolumeName(path)
	return volume + separator, split(path[len(volume):])
}

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r < 0x80 && os.IsPathSeparator(uint8(r)) })
}

// resolveParent resolves all but the last name, which is what a deletion removes.
func resolveParent(path string) (string, error) {
	path = filepath.Clean(path)
	dir, err := resolve(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// within reports whether the path is dir or below it, by its names or because one of its parents is
// the same file. It follows no links; both must be resolved. If loose is set, names that differ only
// in case are equal.
func within(dir, path string, loose bool) bool {
	want, missing := os.Lstat(dir)
	for {
		if path == dir || loose && strings.EqualFold(path, dir) {
			return true
		}
		if missing == nil {
			if have, err := os.Lstat(path); err == nil && os.SameFile(want, have) {
				return true
			}
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}
