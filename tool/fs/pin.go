package fs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/turnlog/turnlog/tool"
)

// Policies judge the paths of a call before it runs. A command that runs at the same time may then
// change symbolic links. So a call with policies asks again about each place, by its name without
// symbolic links, and then walks there through directories only.

// bind makes a handler of a method. The method gets a dir that asks the policies of its call.
func bind[In, Out any](d *dir, f func(*dir, context.Context, In) (Out, error)) func(context.Context, tool.Call, In) (Out, error) {
	return func(ctx context.Context, c tool.Call, in In) (Out, error) {
		own := *d
		if c.Permit != nil {
			own.permit = func(kind, name string) error {
				kind, summary, target := describe(kind, kind, filepath.Join(d.Dir(), filepath.FromSlash(name)))
				return c.Permit(ctx, kind, summary, target)
			}
		}
		return f(&own, ctx, in)
	}
}

// place is a name in an open directory.
type place struct {
	*os.Root

	base string
	own  bool // the directory is open for this place only
}

func (p *place) close() {
	if p.own {
		_ = p.Close() // only names were read
	}
}

// pin returns the place of a name without symbolic links, for requests of a kind. With create, it
// makes missing directories.
func (d *dir) pin(kind, name string, create bool) (*place, error) {
	if d.permit == nil {
		if create {
			if err := d.MkdirAll(path.Dir(name), 0o755); err != nil {
				return nil, d.explain(path.Dir(name), err)
			}
		}
		return &place{Root: d.Root.Root, base: name}, nil
	}
	if err := d.permit(kind, name); err != nil {
		return nil, err
	}
	at := &place{Root: d.Root.Root, base: path.Base(name)}
	for next := range strings.SplitSeq(path.Dir(name), "/") {
		if next == "." {
			continue
		}
		to, err := enter(at.Root, next, create)
		at.close()
		if err != nil {
			return nil, d.explain(path.Dir(name), err)
		}
		at.Root, at.own = to, true
	}
	return at, nil
}

var errMoved = errors.New("it was replaced while it was in use: try again")

// enter opens a directory, which must not be a symbolic link.
func enter(r *os.Root, name string, create bool) (*os.Root, error) {
	if create {
		if err := r.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err //nolint:wrapcheck // explain does
		}
	}
	to, err := r.OpenRoot(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // explain does
	}
	info, err := to.Stat(".")
	if err == nil {
		err = unmoved(r, name, info)
	}
	if err != nil {
		_ = to.Close() // only names were read
		return nil, err
	}
	return to, nil
}

// unmoved returns an error unless the name still leads to the opened file, without a link in between.
func unmoved(r *os.Root, name string, opened fs.FileInfo) error {
	info, err := r.Lstat(name)
	if err == nil && !os.SameFile(info, opened) {
		err = errMoved
	}
	return err
}

// reach opens the file that a name leads to, for requests of a kind.
func (d *dir) reach(kind, name string, open func(*os.Root, string) (*os.File, error)) (*os.File, fs.FileInfo, error) {
	var err error
	if d.permit != nil {
		if name, err = d.resolve(name); err != nil {
			return nil, nil, err
		}
	}
	at, err := d.pin(kind, name, false)
	if err != nil {
		return nil, nil, err
	}
	defer at.close()
	f, err := open(at.Root, at.base)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && d.permit != nil {
		err = unmoved(at.Root, at.base, info)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, err
	}
	return f, info, nil
}

// tree is the file system that walks see.
type tree struct {
	fs.FS

	dir *dir
}

// Stat follows links.
func (t tree) Stat(name string) (fs.FileInfo, error) { return t.dir.Stat(name) } //nolint:wrapcheck // explain does

// ReadDir returns the entries of a directory, sorted by name. Results are text, so a directory whose name
// is not text is not entered.
func (t tree) ReadDir(name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrInvalid
	}
	f, _, err := t.dir.reach("list", name, func(r *os.Root, name string) (*os.File, error) {
		return r.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err //nolint:wrapcheck // explain does
}
