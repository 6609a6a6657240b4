//go:build !linux

package natstest

// FilesInMemory does nothing.
func FilesInMemory() {}
