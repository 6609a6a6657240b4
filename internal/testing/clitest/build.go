package clitest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// lockPause is the pause between two tries to build while another test builds.
const lockPause = 50 * time.Millisecond

// Build builds commands of this module, named by patterns like ./cmd/..., and returns their
// folder. All test packages share that folder, so the go command links a command only if it
// has changed since the last build. Test packages build one at a time, since otherwise several
// would link the same command.
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
	// Without symbols for debuggers, linking takes half of the time.
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-ldflags=-s -w", "-o", dir + string(os.PathSeparator)}, patterns...)...)
	build.Dir = root
	// On the same file system the go command renames what it linked, so another test
	// package never sees a partial file, and may run the old one meanwhile.
	build.Env = append(os.Environ(), "GOTMPDIR="+temp)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %v: %w\n%s", patterns, err, out)
	}
	return dir, nil
}
