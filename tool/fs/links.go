package fs

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// maxLinks is how many symbolic links a path may go through.
const maxLinks = 40

// resolve follows symbolic links, so that a write changes a link's target and not the
// link. The target need not exist. A link that changes afterwards cannot lead out,
// because every file is opened through the root.
func (d *dir) resolve(name string) (string, error) {
	left, at := strings.Split(name, "/"), "."
	out := tool.Denied("%s leads out of the root through a symbolic link, which is not followed", show(name))
	for links := 0; len(left) > 0; {
		next := left[0]
		left = left[1:]
		if next == ".." && at == "." {
			return "", out
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
			return "", tool.Failure(tool.CodeFileSystem, "%s goes through more than %d symbolic links", show(name), maxLinks)
		}
		if filepath.IsAbs(link) { // os.Root follows no absolute link
			return "", out
		}
		left = append(strings.Split(filepath.ToSlash(link), "/"), left...)
	}
	return at, nil
}
