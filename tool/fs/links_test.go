package fs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/turnlog/turnlog/tool"
)

// TestNothingOutsideIsWrittenWhileTheTreeChanges exchanges a directory for a link that
// leads out, again and again, while files in it are written, patched and deleted.
func TestNothingOutsideIsWrittenWhileTheTreeChanges(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"plain/f": "inside\n"})
	outside := t.TempDir()
	secret := filepath.Join(outside, "f")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.link(t, outside, "out")
	at := func(name string) string { return filepath.Join(k.root, name) }
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, move := range [][2]string{{"plain", "d"}, {"d", "plain"}, {"out", "d"}, {"d", "out"}} {
				for os.Rename(at(move[0]), at(move[1])) != nil {
					_ = os.RemoveAll(at(move[1])) // a write has made the directory meanwhile
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 60 {
		for name, in := range map[string]args{
			"fs_write_file":      {"path": "d/f", "content": "pwned\n"},
			"fs_replace_in_file": {"path": "d/f", "old": "secret", "new": "pwned"},
			"fs_patch":           {"patch": patch("*** Update File: d/f\n-secret\n+pwned\n")},
			"fs_delete":          {"path": "d/f"},
			"fs_read_file":       {"path": "d/f"},
		} {
			r := k.invoke(t, name, in).Result
			if r.Code == tool.CodePanic || name == "fs_read_file" && r.Text() == "d/f: lines 1 to 1 of 1 (7 bytes)\nsecret\n" {
				t.Fatalf("%s: %s", name, r.Text())
			}
		}
	}
	close(stop)
	<-done
	if raw, err := os.ReadFile(secret); err != nil || string(raw) != "secret\n" {
		t.Errorf("outside: %q, %v", raw, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}
