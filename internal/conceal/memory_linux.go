package conceal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

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

// overwrite replaces the variables that the system shows with zeros. Go has copied them, and does not read them there again.
func overwrite() error {
	begin, end, err := shown()
	if err != nil {
		return fmt.Errorf("overwrite the variables: %w", err)
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("overwrite the variables: %w", err)
	}
	_, err = mem.WriteAt(make([]byte, end-begin), begin)
	left, readErr := os.ReadFile("/proc/self/environ")
	if err = errors.Join(err, mem.Close(), readErr); err != nil {
		return fmt.Errorf("overwrite the variables: %w", err)
	}
	if len(bytes.Trim(left, "\x00")) > 0 {
		return errors.New("overwrite the variables: the system still shows the old ones")
	}
	return nil
}

// These are among the fields of /proc/PID/stat that follow the name of the program. See proc_pid_stat(5), which counts from 1.
const (
	envStart = 50 - 3
	envEnd   = 51 - 3
)

// shown returns the addresses of the variables that the system shows for this process.
func shown() (begin, end int64, err error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, fmt.Errorf("find them: %w", err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name may have spaces
	if len(fields) <= envEnd {
		return 0, 0, errors.New("find the variables: the system does not report their addresses")
	}
	begin, err = strconv.ParseInt(fields[envStart], 10, 64)
	end, endErr := strconv.ParseInt(fields[envEnd], 10, 64)
	if err = errors.Join(err, endErr); err != nil {
		return 0, 0, fmt.Errorf("find them: %w", err)
	}
	if begin <= 0 || end < begin {
		return 0, 0, fmt.Errorf("find the variables: addresses %d to %d are invalid", begin, end)
	}
	return begin, end, nil
}
