package conceal

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// enlarge makes room in a pipe, as far as the system permits.
func enlarge(end, size int) { _, _ = unix.FcntlInt(uintptr(end), unix.F_SETPIPE_SZ, size) }

// hideMemory makes this process undumpable, so that only CAP_SYS_PTRACE gives access to it.
func hideMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make this process undumpable: %w", err)
	}
	return nil
}
