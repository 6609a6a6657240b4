// Package textfile reads the files that people name and write: regular files, up to a size.
//
// A name can lead to anything: a pipe without a writer would block a plain open forever,
// and a device may have no end. So only regular files are read, the open never waits, and
// the check is on the opened file, not on the name.
package textfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"unicode/utf8"
)

// MaxSize is the largest file that Read accepts.
const MaxSize = 256 << 10

// Open opens a regular file for reading.
func Open(name string) (*os.File, error) {
	return regular(os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}

// OpenIn opens a regular file below a folder for reading.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	return regular(root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}

func regular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("not a regular file")}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// ReadFile returns the content of a regular file of at most limit bytes.
func ReadFile(name string, limit int64) ([]byte, error) { return all(limit)(Open(name)) }

// ReadIn returns the content of a regular file below a folder, of at most limit bytes.
func ReadIn(root *os.Root, name string, limit int64) ([]byte, error) {
	return all(limit)(OpenIn(root, name))
}

// all reads a file that was opened, and closes it.
func all(limit int64) func(*os.File, error) ([]byte, error) {
	return func(f *os.File, err error) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // nothing was written
		var raw []byte
		info, err := f.Stat()
		if err == nil && info.Size() <= limit { // it may grow meanwhile, and a file of the kernel has no size
			raw, err = io.ReadAll(io.LimitReader(f, limit+1))
		}
		if err == nil && max(info.Size(), int64(len(raw))) > limit {
			err = &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("too many bytes, more than %d", limit)}
		}
		if err != nil {
			return nil, err
		}
		return raw, nil
	}
}

// Read returns the text of a file of at most [MaxSize] bytes. Only errors from the file
// system name the file.
func Read(fsys fs.FS, name string) (string, error) {
	info, err := fs.Stat(fsys, name)
	switch {
	case err != nil:
		return "", err //nolint:wrapcheck // it names the file
	case !info.Mode().IsRegular():
		return "", errors.New("not a regular file")
	case info.Size() > MaxSize:
		return "", fmt.Errorf("%d bytes, more than %d", info.Size(), MaxSize)
	}
	raw, err := fs.ReadFile(fsys, name)
	switch {
	case err != nil:
		return "", err //nolint:wrapcheck // it names the file
	case !utf8.Valid(raw):
		return "", errors.New("not UTF-8 text")
	}
	return string(raw), nil
}
