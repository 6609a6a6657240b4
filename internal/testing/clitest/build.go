package clitest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// lockPause is the pause between two tries to build while another test builds.
const lockPause = 50 * time.Millisecond

// Build builds commands of this module, named by patterns like ./cmd/..., and returns their
// folder. All test packages share that folder, so the go command links a command only if it
// has changed since the last build. Test packages build one at a time, since otherwise several
// would link the same command. One run of "go test" builds a pattern only once: to find that nothing
// has changed takes half a second.
func Build(ctx context.Context, patterns ...string) (dir string, err error) {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	dir = filepath.Join(root, "bin", "test")
	temp := filepath.Join(dir, "tmp")
	if err := os.MkdirAll(temp, 0o755); err != nil { //nolint:gosec // like every other output of a build
		return "", fmt.Errorf("build for tests: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if _, err := lock.TryLockContext(ctx, lockPause); err != nil {
		return "", fmt.Errorf("build for tests: %w", err)
	}
	defer func() { _ = lock.Close() }()
	before := builtBy(dir)
	if patterns = slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return slices.Contains(before, p) }); len(patterns) == 0 {
		return dir, nil
	}
	// Without symbols for debuggers, linking takes half of the time.
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-ldflags=-s -w", "-o", dir + string(os.PathSeparator)}, patterns...)...)
	build.Dir = root
	// On the same file system the go command renames what it linked, so another test
	// package never sees a partial file, and may run the old one meanwhile.
	build.Env = append(os.Environ(), "GOTMPDIR="+temp)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %v: %w\n%s", patterns, err, out)
	}
	if err := os.WriteFile(record(dir), []byte(strings.Join(append(before, patterns...), "\n")), 0o600); err != nil {
		return "", fmt.Errorf("build for tests: %w", err)
	}
	return dir, nil
}

// record is the file with the last run of "go test" that built, and the patterns that it has built.
func record(dir string) string { return filepath.Join(dir, "built") }

// builtBy returns this run and the patterns that it has built.
func builtBy(dir string) []string {
	run := thisRun()
	data, err := os.ReadFile(record(dir))
	if before := strings.Split(string(data), "\n"); err == nil && run != "" && before[0] == run {
		return before
	}
	return []string{run}
}

// thisRun names the process of the go command that started this one, "" if something else did.
func thisRun() string {
	parent := filepath.Join("/proc", strconv.Itoa(os.Getppid()))
	name, err := os.ReadFile(filepath.Join(parent, "comm"))
	if err != nil || string(name) != "go\n" {
		return ""
	}
	stat, err := os.ReadFile(filepath.Join(parent, "stat"))
	boot, errBoot := os.ReadFile("/proc/sys/kernel/random/boot_id")
	fields := strings.Fields(string(stat))
	if err != nil || errBoot != nil || len(fields) <= startTime {
		return ""
	}
	return strings.Join([]string{strings.TrimSpace(string(boot)), fields[0], fields[startTime]}, " ")
}

// startTime is the index of the time when a process started: see proc_pid_stat(5).
const startTime = 21
