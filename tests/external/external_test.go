package external

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestAnotherModuleTestsItsAgent compiles the tests of package turnlogtest, which docs/testing.md shows, in another module.
func TestAnotherModuleTestsItsAgent(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	write("go.mod", fmt.Appendf(nil, `module example.com/agent

%s

require github.com/turnlog/turnlog v0.0.0

replace github.com/turnlog/turnlog => %s
`, goLine(t, read("go.mod")), root))
	write("go.sum", read("go.sum"))
	tests, err := filepath.Glob(filepath.Join(root, "turnlogtest", "*_test.go"))
	if err != nil || len(tests) < 4 {
		t.Fatalf("%d files, %v", len(tests), err)
	}
	for _, file := range tests {
		write(filepath.Base(file), read(filepath.Join("turnlogtest", filepath.Base(file))))
	}
	// It compiles, links nothing, and does not vet every dependency. With the flags of this run, most is compiled already.
	compile := exec.CommandContext(t.Context(), "go", "list", "-mod=mod", "-test", "-export", ".")
	compile.Dir, compile.Env = dir, append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// goLine returns the line of go.mod with the version of Go.
func goLine(t *testing.T, mod []byte) []byte {
	t.Helper()
	for line := range bytes.Lines(mod) {
		if bytes.HasPrefix(line, []byte("go ")) {
			return bytes.TrimSpace(line)
		}
	}
	t.Fatal("go.mod has no version of Go")
	return nil
}
