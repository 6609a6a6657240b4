// Package textfile reads files that people write for models: regular files of UTF-8
// text, up to a size.
package textfile

import (
	"errors"
	"fmt"
	"io/fs"
	"unicode/utf8"
)

// MaxSize is the largest file that Read accepts.
const MaxSize = 256 << 10

// Read returns the text of a file. Only errors from the file system name the file.
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
