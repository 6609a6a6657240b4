// Package ramdisk keeps the temporary files of tests in memory. It is separate from package natstest, because linking a
// server would take most of the build time of a test that needs none.
package ramdisk

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	memory = "/dev/shm"
	room   = 2 << 30 // bytes that must be free: the largest tests write a few hundred MB
)

// Use puts the temporary files of this process and its children into a memory file system. Call it from TestMain.
// Servers with stores make thousands of small files and directories, which took most of the system time. No test depends on a
// real disk. It changes nothing if TMPDIR is set, or if the file system is too small or does not allow programs.
func Use() {
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(memory, &fs) != nil || unix.Access(memory, unix.W_OK) != nil ||
		fs.Flags&unix.ST_NOEXEC != 0 || fs.Bavail*uint64(fs.Bsize) < room { //nolint:gosec // a size is positive
		return
	}
	_ = os.Setenv("TMPDIR", memory) // it has no invalid character
}
