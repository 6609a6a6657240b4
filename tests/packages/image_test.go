//go:build deploy && linux

package packages

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestTheProgramsNeedNothingButThemselves builds them as the Dockerfile does and runs them as its user, in a folder that
// has only what the image has.
func TestTheProgramsNeedNothingButThemselves(t *testing.T) {
	t.Parallel()
	image := t.TempDir()
	recipe := regexp.MustCompile(`(?m)^RUN (.*go build .*) /image(/usr/bin/) \./cmd/\.\.\.`).FindStringSubmatch(string(read(t, "../../docs/deploy/Dockerfile")))
	if recipe == nil {
		t.Fatal("the Dockerfile builds nothing")
	}
	build := exec.CommandContext(t.Context(), "sh", "-c", recipe[1]+" "+image+recipe[2]+" ./cmd/...")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, dir := range []string{"work", "tmp"} {
		if err := os.Mkdir(filepath.Join(image, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(image, dir), 0o1777); err != nil { //nolint:gosec // like /tmp
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(image, "work/notes.txt"), []byte("hello"), 0o644); err != nil { //nolint:gosec // for another user
		t.Fatal(err)
	}
	for _, program := range []string{"turnlog", "driver-node", "tool-worker", "observer"} {
		file, err := elf.Open(filepath.Join(image, recipe[2], program))
		if err != nil {
			t.Fatal(err)
		}
		if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 || file.Section(".interp") != nil {
			t.Errorf("%s needs %q, %v", program, libraries, err)
		}
		_ = file.Close()
		if out := inside(t, image, program, "--version"); !strings.HasPrefix(out, program+" ") {
			t.Errorf("%s says %s", program, out)
		}
	}
	if out := inside(t, image, "turnlog", "run", "--model=demo", "What is here?"); !strings.Contains(out, "notes.txt") {
		t.Errorf("turnlog run says %s", out)
	}
}

// inside runs a program of an image as its user.
func inside(t *testing.T, image, program string, args ...string) string {
	t.Helper()
	const user = 65532
	cmd := exec.CommandContext(t.Context(), "/usr/bin/"+program, args...)
	cmd.Dir, cmd.Env = "/work", []string{"PATH=/usr/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	} else {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getegid(), Size: 1}}
	}
	cmd.Stderr = t.Output() // without /proc, a program warns that it cannot hide its variables
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s %q: %v", program, args, err)
	}
	return string(out)
}
