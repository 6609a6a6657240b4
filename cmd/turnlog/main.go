// Command turnlog runs agent sessions: one turn, a chat, or a deployment of its
// own on an embedded NATS server.
//
// The one idea: every command is the same client of the same parts. Without a
// server, run and chat start a NATS server in this process, with a driver node and
// a worker beside it, and then do exactly what they do against a deployment.
//
// This package is wiring: flags, streams and exit codes. What it prints of a turn
// it learns from the session's journal; live deltas only make it come sooner. It
// keeps no state of its own.
//
// To test against it, give an app streams, signals and an environment of the
// test's own, and execute its root command; the tests of this package do.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/turnlog/turnlog/internal/cli"
)

func main() {
	signals := make(chan os.Signal, 4) // people press Ctrl-C more than once
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	a := &app{
		term: newTerminal(os.Stdin, os.Stdout, os.Stderr, os.Getenv),
		// Read by one at a time: whoever waits for something.
		signals:  signals,
		exit:     os.Exit,
		getenv:   os.Getenv,
		patience: defaultPatience(),
	}
	os.Exit(cli.Execute(context.Background(), newRootCommand(a)))
}
