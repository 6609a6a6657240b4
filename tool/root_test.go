package tool_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/tool"
)

func TestRelMakesPathsRelativeToTheRoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(dir, alias); err != nil {
		t.Fatal(err)
	}
	r, err := tool.OpenRoot(alias)
	if err != nil {
		t.Fatal(err)
	}
	if r.Dir() != dir {
		t.Errorf("Dir = %s, want %s", r.Dir(), dir)
	}
	for path, want := range map[string]string{
		"": ".", ".": ".", "a/b": "a/b", "a/../b": "b", "./a//b/": "a/b", "...": "...", "a/..": ".",
		dir: ".", dir + "/a": "a", dir + "/a/..": ".", alias + "/a/b": "a/b",
	} {
		if got, err := r.Rel(path); got != want || err != nil {
			t.Errorf("Rel(%q) = %q, %v; want %q", path, got, err, want)
		}
	}
	if got, err := r.Rel(strings.Repeat("x/", 255)); err != nil || len(got) != 2*255-1 {
		t.Errorf("a path of 255 names = %d bytes, %v", len(got), err)
	}
	if _, err := r.Rel(strings.Repeat("x/", 256)); err == nil || err.Error() != "path of 512 bytes: too deep: it has more than 255 names" {
		t.Errorf("a path of 256 names: %v", err)
	}
	for _, path := range []string{"..", "a/../..", "../" + filepath.Base(dir) + "/a", "/", dir + "s/a", dir + "/../x", "/etc/passwd"} {
		got, err := r.Rel(path)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != tool.CodeDenied ||
			e.Message != fmt.Sprintf("path %q is outside the root: use a path relative to it", path) {
			t.Errorf("Rel(%q) = %q, %v; want an error", path, got, err)
		}
	}
}

func TestExplainPathErrors(t *testing.T) {
	t.Parallel()
	r, err := tool.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Symlink("/", "out"); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteFile("file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]tool.Error{
		"out":    {Code: tool.CodeDenied, Message: "out leads out of the root through a symbolic link, which is not followed"},
		"none":   {Code: tool.CodeNoFile, Message: "none does not exist"},
		"file/x": {Code: tool.CodeFileSystem, Message: "file/x: not a directory"},
	} {
		_, err := r.Stat(path)
		if got, ok := errors.AsType[*tool.Error](r.Explain(path, err)); !ok || got.Code != want.Code || got.Message != want.Message {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	err = r.Explain("to", r.Rename("none", "dir/to"))
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != tool.CodeNoFile {
		t.Errorf("rename: %v", err)
	}
	err = r.Explain("file", r.Rename("file", "file/x"))
	if got := err.Error(); got != "file: not a directory" {
		t.Errorf("rename: %s", got)
	}
}

func TestOpenRootErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for root, want := range map[string]string{
		missing:     "root " + missing + ": no such directory: create it or name another one",
		file:        "root " + file + ": not a directory: name the directory to work in",
		file + "/x": "root " + file + "/x: not a directory",
	} {
		if _, err := tool.OpenRoot(root); err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
}

func TestSubdir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := tool.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Subdir("a/../a/b"); err != nil || got != filepath.Join(r.Dir(), "a", "b") {
		t.Errorf("Subdir = %q, %v", got, err)
	}
	for path, code := range map[string]string{"none": tool.CodeNoFile, "file": tool.CodeFileSystem, "..": tool.CodeDenied} {
		_, err := r.Subdir(path)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != code {
			t.Errorf("Subdir(%q) = %v, want code %s", path, err, code)
		}
	}
}
