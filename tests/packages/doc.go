// Package packages checks the files in deploy against the binaries that they run.
package packages
