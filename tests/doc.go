// Package tests holds what only shows when the pieces meet: the shape of the
// whole module here, its behaviour in the folders below.
package tests
