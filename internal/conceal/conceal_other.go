//go:build !unix

package conceal

// Secrets does nothing: the tools run no commands on this system.
func Secrets() error { return nil }
