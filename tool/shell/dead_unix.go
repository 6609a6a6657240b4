//go:build unix && !linux

package shell

// allDead knows nothing here: the dead are waited for.
func allDead(int) bool { return false }
