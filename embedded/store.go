package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/gofrs/flock"
)

// ErrStoreInUse is returned by [Start] when another server, in this process or
// another one, holds the store directory. Stop that server, or use another directory.
var ErrStoreInUse = errors.New("store directory is in use")

// Files in a store directory: the owner keeps the first one locked, and writes its process ID into the
// second one. The first one is never removed, since two owners could otherwise lock two different files.
const (
	lockName  = "turnlog.lock"
	ownerName = "turnlog.pid"
)

// store is a directory that only this server uses.
type store struct {
	dir  string
	lock *flock.Flock // nil for a private directory
}

// openStore locks dir, or creates a private directory if dir is empty.
func openStore(dir string) (*store, error) {
	if dir == "" {
		tmp, err := privateDir()
		if err != nil {
			return nil, fmt.Errorf("private store directory: %w: set TMPDIR to a directory that this user can write", err)
		}
		return &store{dir: tmp}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unusable(dir, err)
	}
	lock := flock.New(filepath.Join(dir, lockName))
	locked, err := lock.TryLock()
	switch {
	case err != nil:
		return nil, unusable(dir, err)
	case !locked:
		return nil, fmt.Errorf("store %s: %w by another server%s: stop it, or use another directory", dir, ErrStoreInUse, owner(dir))
	}
	_ = os.WriteFile(filepath.Join(dir, ownerName), []byte(strconv.Itoa(os.Getpid())), 0o600) // only for errors
	return &store{dir: dir, lock: lock}, nil
}

// privateDir makes a directory for the files that even a server in memory needs: about a hundred directories and the
// settings of streams. On Linux it is in a memory file system, which takes a tenth of the time, unless TMPDIR names another
// place.
func privateDir() (string, error) {
	if os.TempDir() == "/tmp" {
		if dir, err := os.MkdirTemp("/dev/shm", "turnlog-"); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", "turnlog-") //nolint:wrapcheck // the caller adds what it is for
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

// owner describes the process that uses a store; "" if it is unknown.
func owner(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, ownerName))
	pid := string(b)
	switch {
	case err != nil:
		return ""
	case pid == strconv.Itoa(os.Getpid()):
		return " of this process"
	}
	return " (process " + pid + ")"
}

// release unlocks the directory, and removes it if it was private.
func (s *store) release() error {
	if s.lock == nil {
		if err := os.RemoveAll(s.dir); err != nil {
			return fmt.Errorf("remove private store: %w", err)
		}
		return nil
	}
	if err := s.lock.Unlock(); err != nil {
		return fmt.Errorf("release store %s: %w", s.dir, err)
	}
	return nil
}
