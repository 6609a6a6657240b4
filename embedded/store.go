package embedded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrStoreInUse is returned by [Start] and [StartCluster] when another server, in this process or
// another one, holds the store directory. Stop that server, or use another directory.
var ErrStoreInUse = errors.New("store directory is in use")

// errLocked is returned by lockFile when another server holds the lock.
var errLocked = errors.New("locked")

// lockName is the file in a store directory that its owner keeps locked. It is never removed, since
// two owners could otherwise lock two different files.
const lockName = "turnlog.lock"

// store is a directory that only this server uses.
type store struct {
	dir  string
	lock *os.File // nil for a private directory
}

// openStore locks dir, or creates a private directory if dir is empty.
func openStore(dir string) (*store, error) {
	if dir == "" {
		tmp, err := os.MkdirTemp("", "turnlog-")
		if err != nil {
			return nil, fmt.Errorf("private store directory: %w: set TMPDIR to a directory that this user can write", err)
		}
		return &store{dir: tmp}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unusable(dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unusable(dir, err)
	}
	if err := lockFile(lock); err != nil {
		if errors.Is(err, errLocked) {
			err = fmt.Errorf("%w by another server%s: stop it, or use another directory", ErrStoreInUse, owner(lock))
		}
		_ = lock.Close() // nothing was written
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	sign(lock)
	return &store{dir: dir, lock: lock}, nil
}

// unusable adds a hint to an error of the file system.
func unusable(dir string, err error) error {
	cause := err
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		cause = p.Err
	}
	hint := "use a directory that this user can create and write"
	if errors.Is(cause, syscall.ENOTDIR) {
		hint = "part of the path is a file: use another directory"
	}
	return fmt.Errorf("store %s: %w: %s", dir, cause, hint)
}

// sign writes the process ID into the lock file, for the error of the next server that tries to open
// it. Errors are ignored.
func sign(lock *os.File) {
	if lock.Truncate(0) == nil {
		_, _ = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
}

// owner describes the process that signed the lock file; "" if it is unknown.
func owner(lock *os.File) string {
	b, err := io.ReadAll(io.LimitReader(lock, 32))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return ""
	}
	if pid == os.Getpid() {
		return " of this process"
	}
	return " (process " + strconv.Itoa(pid) + ")"
}

// release unlocks the directory, and removes it if it was private.
func (s *store) release() error {
	if s.lock == nil {
		if err := os.RemoveAll(s.dir); err != nil {
			return fmt.Errorf("remove private store: %w", err)
		}
		return nil
	}
	if err := unlockFile(s.lock); err != nil {
		return fmt.Errorf("release store %s: %w", s.dir, err)
	}
	return nil
}
