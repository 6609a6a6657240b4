package main

import (
	"io"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/golden"
)

var update = golden.Flag()

func TestTheListOfSettingsIsUpToDate(t *testing.T) {
	t.Parallel()
	for file, want := range clitest.Settings(t, newRootCommand(io.Discard, clitest.NoEnv)) {
		golden.Check(t, *update, file, want)
	}
}

func TestEveryCommandHasAManualPage(t *testing.T) {
	t.Parallel()
	clitest.Manual(t, newRootCommand(io.Discard, clitest.NoEnv), cli.Execute)
}
