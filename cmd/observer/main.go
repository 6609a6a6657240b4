// Command observer reads and verifies the journals of sessions: live, as events,
// as a transcript, as a file that verifies without a server.
//
// The one idea: an observer only reads. It owns nothing and can be stopped and
// started anywhere; it shows what the journal holds, including entries of releases
// that it does not know.
//
// This package is wiring: flags and output. What events look like is package
// render's, what a whole journal is package audit's.
//
// To test against it, execute its root command with arguments and outputs of the
// test's own, against an embedded server.
package main

import (
	"os"

	"github.com/turnlog/turnlog/internal/cli"
)

func main() { os.Exit(cli.Main(newRootCommand(os.Getenv))) }
