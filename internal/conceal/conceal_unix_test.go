//go:build unix

package conceal_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnlog/turnlog/internal/conceal"
	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/internal/testing/sample"
)

// attack reads what Linux shows of the parent of a command.
const attack = "cat /proc/$PPID/environ /proc/self/environ; { : </proc/$PPID/mem; } && echo READABLE; env"

// The test program is also the process that has secrets: with one of these arguments, it runs
// the attack.
const (
	open   = "run-the-attack"
	hidden = "run-the-attack-with-hidden-secrets"
	again  = "run-the-attack-after-another-start"
)

func TestMain(m *testing.M) {
	switch os.Args[len(os.Args)-1] {
	case open:
		cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", attack)
		cmd.Env, cmd.Stdout = []string{"PATH=/usr/bin:/bin"}, os.Stdout
		_ = cmd.Run() // a step of the attack may fail
	case hidden, again:
		_, second := os.LookupEnv(conceal.Handover)
		if os.Args[len(os.Args)-1] == again && !second {
			fmt.Println(conceal.StartAgain()) // it returns only if it failed
		}
		err := conceal.Secrets()
		fmt.Printf("second start: %t, %v, key of %d bytes\n", second, err, len(os.Getenv("TEST_KEY")))
		_, err = procgroup.Run(context.Background(), procgroup.Command{
			Path: "/bin/sh", Args: []string{"sh", "-c", attack}, Env: []string{"PATH=/usr/bin:/bin"}, Output: os.Stdout, Grace: time.Second,
		})
		if err != nil {
			fmt.Println(err)
		}
	default:
		os.Exit(m.Run())
	}
}

// TestCommandsCannotReadTheSecretsOfTheirParent attacks as the user of the test, and, if that
// is root, also as another user.
func TestCommandsCannotReadTheSecretsOfTheirParent(t *testing.T) {
	t.Parallel()
	users := map[string]*syscall.Credential{"this user": nil}
	if os.Geteuid() == 0 {
		users["nobody"] = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	program := copyOfThisProgram(t)
	secret := strings.Repeat("hush ", 20_000)
	for name, user := range users {
		run := func(mode string) string {
			cmd := exec.CommandContext(t.Context(), program, mode)
			cmd.Env, cmd.SysProcAttr, cmd.Dir = []string{"TEST_KEY=" + secret, "PATH=/usr/bin:/bin"}, &syscall.SysProcAttr{Credential: user}, "/"
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s, %s: %v", name, mode, err)
			}
			return string(out)
		}
		for mode, second := range map[string]bool{hidden: runtime.GOOS != "linux", again: true} {
			begins := fmt.Sprintf("second start: %t, <nil>, key of 100000 bytes\n", second)
			if out := run(mode); !strings.HasPrefix(out, begins) || strings.Contains(out, "hush") || strings.Contains(out, "READABLE") {
				t.Errorf("%s, %s: %.2000s", name, mode, out)
			}
		}
		if out := run(open); runtime.GOOS == "linux" && (!strings.Contains(out, "hush") || !strings.Contains(out, "READABLE")) {
			t.Errorf("%s: the attack does not work: %.2000s", name, out)
		}
	}
}

// copyOfThisProgram returns a copy that every user can run.
func copyOfThisProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // another user must reach it
		t.Fatal(err)
	}
	raw, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "program")
	sample.WriteProgram(t, name, string(raw), 0o755)
	return name
}
