package fs

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// maxLinks is how many symbolic links one path may lead through.
const maxLinks = 40

// resolve follows symbolic links, so that what is written is the file that a link
// leads to, and not the link. What is not there yet is what it would be. Whatever
// changes afterwards, the root is not left: every file is opened through it.
func (d *dir) resolve(name string) (string, error) {
	left, at := strings.Split(name, "/"), "."
	for links := 0; len(left) > 0; {
		next := left[0]
		left = left[1:]
		if next == ".." && at == "." {
			return "", tool.Denied("%s leads out of the root through a symbolic link, which is not followed", show(name))
		}
		to := path.Join(at, next)
		info, err := d.Lstat(to)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return d.Rel(path.Join(append([]string{to}, left...)...))
		case err != nil:
			return "", d.explain(name, err)
		case info.Mode()&fs.ModeSymlink == 0:
			at = to
			continue
		}
		link, err := d.Readlink(to)
		if err != nil {
			return "", d.explain(name, err)
		}
		if links++; links > maxLinks {
			return "", tool.Failure(tool.CodeFileSystem, "%s leads through more than %d symbolic links", show(name), maxLinks)
		}
		if filepath.IsAbs(link) { // no root takes one, wherever it leads
			return "", tool.Denied("%s leads out of the root through a symbolic link, which is not followed", show(name))
		}
		left = append(strings.Split(filepath.ToSlash(link), "/"), left...)
	}
	return at, nil
}
