//go:build unix

package procgroup

import (
	"errors"
	"syscall"
	"time"
)

// Supported says whether this system has process groups.
const Supported = true

// ownGroup makes a process the leader of a group of its own, which its children
// are born into, and has it end with this process where the system knows how.
func ownGroup() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	endWithParent(attr)
	return attr
}

// group is a command with all that it started.
type group struct {
	leader int
	grace  time.Duration
}

// stop asks the group to end and, if its leader has not after the grace, makes it.
func (g group) stop(exited <-chan struct{}) {
	g.signal(syscall.SIGTERM)
	timer := time.NewTimer(g.grace)
	defer timer.Stop()
	select {
	case <-exited:
	case <-timer.C:
		g.signal(syscall.SIGKILL)
	}
}

// clear ends what the leader, which is gone, has left behind. While anything is
// left the number of the group is not given to another one.
func (g group) clear() {
	g.signal(syscall.SIGTERM)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(g.grace); g.left(); <-tick.C {
		if time.Now().After(end) {
			g.signal(syscall.SIGKILL)
			return
		}
	}
}

// left reports whether anybody is left who is not dead. The dead stay in the
// group until their parent takes note of them; a parent that is gone is replaced
// by the first process of the system, which may take its time, or may be this one.
func (g group) left() bool {
	for {
		pid, err := syscall.Wait4(-g.leader, nil, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			break
		}
	}
	return g.signal(0) && !allDead(g.leader)
}

// signal reports whether there was anybody to be told.
func (g group) signal(s syscall.Signal) bool {
	return !errors.Is(syscall.Kill(-g.leader, s), syscall.ESRCH)
}
