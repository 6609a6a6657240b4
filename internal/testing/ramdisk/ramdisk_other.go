//go:build !linux

package ramdisk

// Use does nothing.
func Use() {}
