//go:build !unix

package procgroup

import (
	"syscall"
	"time"
)

// Supported reports whether this system has process groups.
const Supported = false

func withoutTracing() {}

func ownGroup() *syscall.SysProcAttr { return nil }

// group is never used: Run returns an error here.
type group struct {
	leader int
	grace  time.Duration
}

func (group) stop(<-chan struct{}) {}

func (group) clear() {}
