//go:build unix && !linux

package procgroup

import "syscall"

// endWithParent does nothing: this system has no such feature.
func endWithParent(*syscall.SysProcAttr) {}

// withoutTracing does nothing: this system has no such capability.
func withoutTracing() {}

// allDead returns false: zombies count as alive, since this system does not list them.
func allDead(int) bool { return false }
