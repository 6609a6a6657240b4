package commands

import (
	"testing"

	"github.com/turnlog/turnlog/internal/testing/wiretest"
)

func TestCommandsHaveTheBytesOfTheLibrary(t *testing.T) {
	t.Parallel()
	for _, c := range samples() {
		wiretest.Same(t, c)
	}
}
