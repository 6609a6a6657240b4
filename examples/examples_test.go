package examples

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/golden"
)

// took matches how long a command took, as go test prints it: "(cached)" if it knew the result, as with -trimpath,
// where another folder is no difference.
var took = regexp.MustCompile(`\b\d+\.\d+s\b|\(cached\)`)

var update = golden.Flag()

// build builds the examples, once for all tests: even if nothing has changed, that takes half a second.
var build = sync.OnceValues(func() (dir string, err error) {
	return clitest.Build(context.Background(), "./examples/...")
})

func TestEveryExampleRuns(t *testing.T) {
	t.Parallel()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || name == "testdata" || !exists(filepath.Join(name, "main.go")) {
			continue
		}
		ran++
		if !bytes.Contains(list, []byte("go run ./examples/"+name+" ")) {
			t.Errorf("doc.go does not list %s", name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary := filepath.Join(dir, name)
			if runtime.GOOS == "windows" {
				binary += ".exe"
			}
			dir := ".." // as doc.go says
			if about := filepath.Join("testdata", name); exists(about) {
				dir = about // what the example would say about the repository is not fixed
			}
			printed := run(t, binary, dir, filepath.Join("testdata", name+".in"))
			golden.Check(t, *update, filepath.Join("testdata", name+".txt"), string(took.ReplaceAll(printed, []byte("0.00s"))))
		})
	}
	if ran == 0 {
		t.Error("there are no examples")
	}
}

// run returns the output of a program that starts in a folder.
func run(t *testing.T, binary, dir, input string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Dir = dir
	in, err := os.ReadFile(input)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &problems
	if err := cmd.Run(); err != nil || problems.Len() > 0 {
		t.Fatalf("%s: %v\n%s%s", filepath.Base(binary), err, out.Bytes(), problems.Bytes())
	}
	return out.Bytes()
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// TestAnExampleThatFailsSaysSo takes programs and temporary folders away.
func TestAnExampleThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"agent-file", "coder", "executable-tool", "verify-task"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name))
			cmd.Env = []string{"PATH=/nowhere", "TMPDIR=/nowhere", "HOME=" + t.TempDir()}
			var problems bytes.Buffer
			cmd.Stderr = &problems
			if exit, ok := errors.AsType[*exec.ExitError](cmd.Run()); !ok || exit.ExitCode() != 1 || problems.Len() == 0 {
				t.Errorf("it ends with %v and says %q", cmd.ProcessState, problems.Bytes())
			}
		})
	}
}
