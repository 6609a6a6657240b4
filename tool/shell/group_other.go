//go:build !unix

package shell

import (
	"syscall"
	"time"
)

const supported = false

func ownGroup() *syscall.SysProcAttr { return nil }

// group is never used: New returns an error here.
type group struct {
	leader int
	grace  time.Duration
}

func (group) stop(<-chan struct{}) {}

func (group) clear() {}
