//go:build unix

package exec

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A script can replace the files that pass its state on. Reading a pipe would never end, and
// a link would show another file of the machine to the next script.
func TestAShellReadsOnlyItsOwnState(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("top secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(file string) error{
		"a pipe":      func(file string) error { return syscall.Mkfifo(file, 0o600) },
		"a link":      func(file string) error { return os.Symlink(secret, file) },
		"a directory": func(file string) error { return os.Mkdir(file, 0o700) },
	} {
		v := visit{&keptShell{id: "x"}, t.TempDir()}
		if err := put(v.file("after")); err != nil {
			t.Fatal(err)
		}
		if note := v.keep(false); !strings.Contains(note, "the script did not finish") || len(v.state) > 0 {
			t.Errorf("%s: %q, with the state %q", name, note, v.state)
		}
	}
}
