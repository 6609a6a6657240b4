package embedded

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// lockedByte is far beyond the file's content, because other processes cannot read a locked range,
// and they need to read the owner's process ID.
func lockedByte() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1} }

// lockFile locks f, or returns errLocked at once. Windows releases the lock when the process ends
// for any reason.
func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, lockedByte())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	if err != nil {
		return fmt.Errorf("LockFileEx: %w", err)
	}
	return nil
}

// unlockFile unlocks and closes f.
func unlockFile(f *os.File) error {
	return errors.Join(windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, lockedByte()), f.Close())
}
