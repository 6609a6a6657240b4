// Command tool-worker runs the tools of a deployment.
//
// The one idea: any number of workers share a queue without knowing one another.
// Each offers its tools to the deployment's models, claims calls while it has free
// slots, and keeps each claim alive while its tool runs; the calls of a killed worker
// are redelivered. When it stops, it withdraws its offer and lets running calls
// finish.
//
// This package is wiring: flags and metrics. The list of tools is package toolset's,
// the worker itself package worker's.
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
