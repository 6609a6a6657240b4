package fs_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
	"github.com/turnlog/turnlog/tool/tooltest"
)

func versionIn(t *testing.T, text string) string {
	t.Helper()
	m := regexp.MustCompile(`; version ([0-9a-f]{16})\n`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no version in %q", text)
	}
	return m[1]
}

func readFirst(t *testing.T, files map[string]string) kit {
	t.Helper()
	k := newKit(t, files)
	k.open(t, fs.Options{Write: true, ReadFirst: true})
	return k
}

func TestExistingFileMustBeReadBeforeItIsChanged(t *testing.T) {
	t.Parallel()
	change := patch("*** Update File: f\n-one\n+two\n")
	for name, in := range map[string]args{
		"fs_write_file":      {"path": "f", "content": "two\n"},
		"fs_replace_in_file": {"path": "f", "old": "one", "new": "two"},
		"fs_patch":           {"patch": change},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := readFirst(t, map[string]string{"f": "one\n"})
			give := func(version string) args {
				out := args{"version": version}
				if name == "fs_patch" {
					out = args{"versions": map[string]string{"./f": version}}
				}
				maps.Copy(out, in)
				return out
			}
			unread := k.fail(t, fs.CodeUnread, name, in)
			if want := "f exists: read it with fs_read_file first"; !strings.Contains(unread, want) {
				t.Errorf("unread: %q, want %q", unread, want)
			}
			k.fail(t, fs.CodeChanged, name, give("0000000000000000"))

			version := versionIn(t, k.call(t, "fs_read_file", args{"path": "f"}))
			if err := os.WriteFile(filepath.Join(k.root, "f"), []byte("one\nmore\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			k.fail(t, fs.CodeChanged, name, give(version))
			equal(t, "nothing was changed", k.content(t, "f"), "one\nmore\n")

			again := versionIn(t, k.call(t, "fs_read_file", args{"path": "f", "last_line": 1}))
			answer := k.call(t, name, give(again))
			if got := versionIn(t, k.call(t, "fs_read_file", args{"path": "f"})); got != versionIn(t, answer) || got == again {
				t.Errorf("the edit says %q, the file is at %s", answer, got)
			}
		})
	}
}

func TestNewFilesNeedNoVersion(t *testing.T) {
	t.Parallel()
	k := readFirst(t, map[string]string{"empty": ""})
	version := versionIn(t, k.call(t, "fs_write_file", args{"path": "new", "content": "a\n"}))
	k.call(t, "fs_replace_in_file", args{"path": "new", "old": "a", "new": "b", "version": version})
	k.fail(t, fs.CodeChanged, "fs_write_file", args{"path": "gone", "content": "a", "version": version})
	k.fail(t, tool.CodeNoFile, "fs_replace_in_file", args{"path": "gone", "old": "a", "new": "b", "version": version})
	version = versionIn(t, k.call(t, "fs_read_file", args{"path": "empty"}))
	k.call(t, "fs_write_file", args{"path": "empty", "content": "a", "version": version})
}

// TestVersionHoldsOnEveryWorker reads with one set of tools and writes with another.
func TestVersionHoldsOnEveryWorker(t *testing.T) {
	t.Parallel()
	k := readFirst(t, map[string]string{"f": "one\n"})
	version := versionIn(t, k.call(t, "fs_read_file", args{"path": "f"}))
	k.open(t, fs.Options{Write: true, ReadFirst: true})
	k.call(t, "fs_write_file", args{"path": "f", "content": "two\n", "version": version})
}

func TestVersionsAreRequiredOnlyWithReadFirst(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"f": "one\n"})
	k.fail(t, tool.CodeInvalidArguments, "fs_write_file", args{"path": "f", "content": "two", "version": "x"})
	if got := k.call(t, "fs_read_file", args{"path": "f"}); strings.Contains(got, "version") {
		t.Errorf("read says %q", got)
	}
	strict := readFirst(t, map[string]string{"f": "one\n"})
	for _, name := range []string{"fs_read_file", "fs_write_file", "fs_patch"} {
		t.Run(name, func(t *testing.T) { tooltest.Run(t, strict.tools[name]) })
	}
}
