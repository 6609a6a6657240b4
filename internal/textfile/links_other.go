//go:build !unix

package textfile

import "io/fs"

// Linked reports false: this system does not say how many names a file has.
func Linked(fs.FileInfo) bool { return false }
