// Package packages checks the files in docs/systemd against the binaries that they run.
package packages
