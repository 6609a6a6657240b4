package chaos

import (
	"os"
	"testing"
)

// binaries is a folder for what tests build.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "turnlog-chaos-")
	if err != nil {
		panic(err)
	}
	binaries = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
