//go:build unix

package procgroup

import (
	"errors"
	"syscall"
	"time"
)

// Supported reports whether this system has process groups.
const Supported = true

// ownGroup makes a process the leader of a new group, and ends it with this process
// where the system can do that.
func ownGroup() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	endWithParent(attr)
	return attr
}

// group is a command and the processes that it started.
type group struct {
	leader int
	grace  time.Duration
}

// stop terminates the group, and kills it if the leader is still running after the grace
// period.
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

// clear ends the processes that outlive the leader. The system does not reuse the group
// ID while the group has members.
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

// left reports whether the group has a live process. Zombies stay in the group until
// their parent reaps them. The parent of orphans is the system's first process, which may
// be slow, or may be this process.
func (g group) left() bool {
	for {
		pid, err := syscall.Wait4(-g.leader, nil, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			break
		}
	}
	return g.signal(0) && !allDead(g.leader)
}

// signal reports whether the group has members.
func (g group) signal(s syscall.Signal) bool {
	return !errors.Is(syscall.Kill(-g.leader, s), syscall.ESRCH)
}
