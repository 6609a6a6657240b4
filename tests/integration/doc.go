// Package integration runs Turnlog as its users do: real binaries, real NATS over
// TCP, processes killed with -9.
package integration
