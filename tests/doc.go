// Package tests checks what only shows when the pieces meet: the shape of the
// whole module here, its behavior in the folders below.
package tests
