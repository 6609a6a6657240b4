package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/golden"
)

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestACommandWhoseOutputIsLostHasFailed(t *testing.T) {
	t.Parallel()
	p := prepare(t, strings.NewReader(""), nil)
	p.app.Out = full{}
	p.start(t, "run", "--model", scripted(t, echo), "hi")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "turnlog: no space left") {
		t.Errorf("code %d, err %q", code, p.err)
	}
}

func TestTheListOfSettingsIsUpToDate(t *testing.T) {
	t.Parallel()
	for file, want := range clitest.Settings(t, newRootCommand(prepare(t, nil, nil).app)) {
		golden.Check(t, *update, file, want)
	}
}

func TestEveryCommandHasAManualPage(t *testing.T) {
	t.Parallel()
	clitest.Manual(t, newRootCommand(prepare(t, nil, nil).app), cli.Execute)
}

func TestACommandIsMadeByItsName(t *testing.T) {
	t.Parallel()
	for name, command := range makers() {
		if got := command(prepare(t, nil, nil).app).Name(); got != name {
			t.Errorf("the command %s is called %s", got, name)
		}
		root := newRootCommand(prepare(t, nil, nil).app, name)
		if all := root.Commands(); len(all) != 1 || all[0].Name() != name {
			t.Errorf("to run %s, %d commands are made", name, len(all))
		}
	}
}
