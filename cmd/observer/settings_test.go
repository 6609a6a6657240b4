package main

import (
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/golden"
)

func TestTheListOfSettingsIsUpToDate(t *testing.T) {
	t.Parallel()
	for file, want := range clitest.Settings(t, newRootCommand(clitest.NoEnv)) {
		golden.Check(t, *rewriting, file, want)
	}
}

func TestEveryCommandHasAManualPage(t *testing.T) {
	t.Parallel()
	clitest.Manual(t, newRootCommand(clitest.NoEnv), cli.Execute)
}
