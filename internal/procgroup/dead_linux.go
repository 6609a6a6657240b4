package procgroup

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// withoutTracing keeps the commands that this thread starts from looking into this process
// as root. Only root has the capability, and may give it up.
func withoutTracing() { _ = unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_PTRACE, 0, 0, 0) }

// endWithParent makes the kernel kill a command when the thread that started it ends.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// allDead reports whether every process of a group is a zombie.
func allDead(group int) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	want := strconv.Itoa(group)
	for _, e := range entries {
		if name := e.Name(); name[0] < '0' || name[0] > '9' {
			continue
		}
		raw, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// State, parent and group follow the name, which may contain anything.
		after := string(raw[strings.LastIndexByte(string(raw), ')')+1:])
		if f := strings.Fields(after); len(f) > 2 && f[2] == want && f[0] != "Z" && f[0] != "X" {
			return false
		}
	}
	return true
}
