package natstest

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	memory = "/dev/shm"
	room   = 2 << 30 // bytes that must be free: the largest tests write a few hundred MB
)

// FilesInMemory puts the temporary files of this process, and of those that it starts, into a file system in memory. Call it
// from TestMain. Servers with stores make thousands of small files and directories, and most of the time of the system went
// there. No test asks what a disk does. It changes nothing if TMPDIR is set, or if that file system is small or runs no programs.
func FilesInMemory() {
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(memory, &fs) != nil || unix.Access(memory, unix.W_OK) != nil ||
		fs.Flags&unix.ST_NOEXEC != 0 || fs.Bavail*uint64(fs.Bsize) < room { //nolint:gosec // a size is positive
		return
	}
	_ = os.Setenv("TMPDIR", memory) // it has no invalid character
}
