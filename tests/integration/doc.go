// Package integration runs Turnlog as its users do: real binaries, NATS over TCP, and
// processes killed with -9.
package integration
