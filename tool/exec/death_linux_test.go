package exec_test

import (
	"context"
	"encoding/json"
	"os"
	osexec "os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/parallel"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/exec"
)

// hostRoot names the directory in which this binary, run as a child, is a host whose
// only call never ends.
const hostRoot = "TURNLOG_TEST_SHELL_HOST"

func TestMain(m *testing.M) {
	if root := os.Getenv(hostRoot); root != "" {
		host(root)
	}
	parallel.Tests(8)
	os.Exit(m.Run())
}

func host(root string) {
	x, err := exec.NewShell(root, exec.Options{})
	if err != nil {
		os.Exit(2)
	}
	script := `echo $$ >pid; while :; do echo >>beats; sleep 0.01; done`
	raw, err := json.Marshal(map[string]any{"script": script, "timeout_seconds": 600})
	if err != nil {
		os.Exit(2)
	}
	tool.Invoke(context.Background(), x, tool.Call{ID: "c1", Input: raw})
	os.Exit(0)
}

func TestCommandEndsWithAHostThatIsKilled(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	cmd := osexec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), hostRoot+"="+root)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := readPID(t, filepath.Join(root, "pid"))
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	poll(t, "a command that lives as long as its host", func() bool {
		beats, err := os.ReadFile(filepath.Join(root, "beats"))
		return err == nil && len(beats) >= 10
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	gone(t, pid)
}
