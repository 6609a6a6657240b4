//go:build unix

package fs_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/turnlog/turnlog/tool/fs"
)

// TestPipeIsNotRead would hang if the pipe were opened.
func TestPipeIsNotRead(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	if err := syscall.Mkfifo(filepath.Join(k.root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	equal(t, "read", k.fail(t, fs.CodeKind, "fs_read_file", args{"path": "pipe"}), "Tool failed: pipe is not a regular file")
	equal(t, "list", k.call(t, "fs_list_directory", nil), "pipe (not a regular file)\n")
	equal(t, "search", k.call(t, "fs_search", args{"pattern": "x"}), "no match in 0 files\n")
	k.fail(t, fs.CodeKind, "fs_write_file", args{"path": "pipe", "content": "x"})
}
