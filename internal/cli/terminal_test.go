package cli_test

import (
	"runtime"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
)

func TestATerminalThatDoesNotSayWhatItIsGetsOnlyText(t *testing.T) {
	t.Parallel()
	for term, want := range map[string]bool{"xterm-256color": true, "dumb": false, "": runtime.GOOS == "windows"} {
		if got := cli.Understands(func(string) string { return term }); got != want {
			t.Errorf("TERM=%q: %v, want %v", term, got, want)
		}
	}
}
