// Command driver-node hosts the drivers of a deployment's sessions.
//
// The one idea: any number of nodes run side by side without knowing one another.
// Each takes sessions as they wake, up to its capacity, and hands them over when it
// stops; the sessions of a killed node are taken over by the others.
//
// This package is wiring: flags, metrics and the list of models ([models]). The
// node itself is package actor.
//
// To test against it, execute newRootCommand with a context that ends; the tests
// of this package do, over an embedded server.
package main

import (
	"os"

	"github.com/turnlog/turnlog/internal/cli"
)

func main() {
	cli.ConcealSecrets()
	os.Exit(cli.Main(newRootCommand(os.Stderr, os.Getenv)))
}
