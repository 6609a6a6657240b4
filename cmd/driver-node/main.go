// Command driver-node hosts the drivers of a deployment's sessions.
//
// Any number of nodes run side by side without knowing one another. Each node takes
// sessions as they wake, up to its capacity, and hands them over when it stops. Other
// nodes take over the sessions of a killed node.
//
// This package is wiring: flags, metrics and the list of models ([models]). The
// node itself is in package actor.
//
// To test against it, execute newRootCommand with a context that ends, as the tests
// of this package do with an embedded server.
package main

import (
	"os"

	"github.com/turnlog/turnlog/internal/cli"
)

func main() {
	cli.ConcealSecrets()
	os.Exit(cli.Main(newRootCommand(os.Stderr, os.Getenv)))
}
