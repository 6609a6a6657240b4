//go:build unix

package textfile

import (
	"io/fs"
	"syscall"
)

// Linked reports whether a file is a regular one with more than one name, by hard links.
func Linked(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && s.Nlink > 1
}
