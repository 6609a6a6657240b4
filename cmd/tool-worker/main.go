// Command tool-worker runs the tools of a deployment.
//
// Any number of workers share a queue without knowing one another. Each worker offers
// its tools to the deployment's models, claims calls while it has free slots, and keeps
// each claim alive while its tool runs. The calls of a killed worker are redelivered.
// When a worker stops, it withdraws its offer and lets running calls finish.
//
// This package is wiring: flags and metrics. The list of tools is in package toolset,
// the worker itself in package worker.
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
