// Package tests checks the module as a whole: its shape here, its behavior in
// the folders below.
package tests
