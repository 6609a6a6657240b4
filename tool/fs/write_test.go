package fs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
)

func TestWriteFile(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"old": "before\n", "d/": "", "f": "x"})
	k.link(t, "old", "link")
	k.link(t, "../x/y", "d/up")
	k.link(t, "x/none", "dangling")
	k.link(t, "../out", "out")
	k.link(t, k.root+"/old", "absolute")
	k.link(t, "loop2", "loop1")
	k.link(t, "loop1", "loop2")
	for _, row := range []struct {
		path, content, want string
		changed             []string
	}{
		{"new", "one\ntwo\n", "created new: 8 bytes, 2 lines\n", []string{"new"}},
		{"x/y/z", "", "created x/y/z: 0 bytes, 0 lines\n", []string{"x/y/z"}},
		{"old", "after\n", "replaced old: 6 bytes, 1 line; it had 7 bytes\n", []string{"old"}},
		{"old", "after\n", "old already has this content\n", nil},
		{"old", "AFTER\n", "replaced old: 6 bytes, 1 line; it had 6 bytes\n", []string{"old"}},
		{k.root + "/d/../abs", "x", "created abs: 1 byte, 1 line\n", []string{"abs"}},
		{"link", "by the link\n", "replaced old: 12 bytes, 1 line; it had 6 bytes\n", []string{"old"}},
		{"d/up/new", "x", "created x/y/new: 1 byte, 1 line\n", []string{"x/y/new"}},
		{"dangling", "x", "created x/none: 1 byte, 1 line\n", []string{"x/none"}},
	} {
		r := k.invoke(t, "fs_write_file", args{"path": row.path, "content": row.content})
		equal(t, row.path, r.Result.Text(), row.want)
		if diff := cmp.Diff(row.changed, r.ChangedPaths); diff != "" {
			t.Errorf("%s: changed paths: %s", row.path, diff)
		}
		name, _ := strings.CutPrefix(row.path, k.root)
		equal(t, row.path, k.content(t, name), row.content)
	}
	for _, row := range []struct{ code, path, want string }{
		{fs.CodeKind, "d", "Tool failed: d is a directory: list it with fs_list_directory, or name a file in it"},
		{fs.CodeKind, "", `Tool failed: path "" is the root itself: name a file in it`},
		{tool.CodeDenied, "out", "Tool failed: out leads out of the root through a symbolic link, which is not followed"},
		{tool.CodeDenied, "out/x", "Tool failed: out/x leads out of the root through a symbolic link, which is not followed"},
		{tool.CodeDenied, "absolute", "Tool failed: absolute leads out of the root through a symbolic link, which is not followed"},
		{tool.CodeFileSystem, "loop1", "Tool failed: loop1 goes through more than 40 symbolic links"},
		{tool.CodeFileSystem, "f/x", "Tool failed: f/x: not a directory"},
		{tool.CodeFileSystem, strings.Repeat("x", 300), "Tool failed: " + strings.Repeat("x", 300) + ": file name too long"},
	} {
		equal(t, row.path, k.fail(t, row.code, "fs_write_file", args{"path": row.path, "content": "x"}), row.want)
	}
	noLeftovers(t, k)
}

func noLeftovers(t *testing.T, k kit) {
	t.Helper()
	if got := k.call(t, "fs_find", args{"glob": ".turnlog-*"}); !strings.HasPrefix(got, "nothing matches") {
		t.Errorf("temporary files are left: %s", got)
	}
}

func TestReplacedFileKeepsItsMode(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"run.sh": "echo one\n"})
	name := filepath.Join(k.root, "run.sh")
	if err := os.Chmod(name, 0o751); err != nil {
		t.Fatal(err)
	}
	k.call(t, "fs_replace_in_file", args{"path": "run.sh", "old": "one", "new": "two"})
	k.call(t, "fs_write_file", args{"path": "run.sh", "content": "echo three\n"})
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
}

// TestReadersSeeWholeFiles reads while two versions of a file replace each other.
func TestReadersSeeWholeFiles(t *testing.T) {
	t.Parallel()
	versions := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 100_000)}
	k := newKit(t, map[string]string{"file": versions[0]})
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for range 20 {
				k.call(t, "fs_write_file", args{"path": "file", "content": versions[i]})
			}
		})
	}
	for range 100 {
		if got := k.content(t, "file"); got != versions[0] && got != versions[1] {
			t.Fatalf("read a mixture of %d bytes", len(got))
		}
	}
	wg.Wait()
	noLeftovers(t, k)
}

func TestReplaceInFile(t *testing.T) {
	t.Parallel()
	const text = "func a() {\n\treturn 1\n}\n\nfunc b() {\n\treturn 1\n}\n"
	for _, row := range []struct {
		name       string
		file       string
		in         args
		want, then string
	}{
		{"unique", text, args{"old": "func a()", "new": "func c()"}, "replaced 1 in f (line 1)\n", strings.Replace(text, "a()", "c()", 1)},
		{"several lines", text, args{"old": "b() {\n\treturn 1", "new": "b() {\n\treturn 2"}, "replaced 1 in f (line 5)\n", strings.Replace(text, "b() {\n\treturn 1", "b() {\n\treturn 2", 1)},
		{"all", text, args{"old": "return 1", "new": "return 3", "all": true}, "replaced 2 in f (lines 2, 6)\n", strings.ReplaceAll(text, "1", "3")},
		{"delete", text, args{"old": "func a() {\n\treturn 1\n}\n\n", "new": ""}, "replaced 1 in f (line 1)\n", text[24:]},
		{"crlf", "a\r\nb\r\nc\r\n", args{"old": "a\nb\n", "new": "x\ny\nz\n"}, "replaced 1 in f (line 1)\n", "x\r\ny\r\nz\r\nc\r\n"},
		{"crlf as it is", "a\r\nb\n", args{"old": "a\r\nb", "new": "x\ny"}, "replaced 1 in f (line 1)\n", "x\ny\n"},
		{"invalid bytes stay", "caf\xe9 one\n", args{"old": "one", "new": "two"}, "replaced 1 in f (line 1)\n", "caf\xe9 two\n"},
		{"many", strings.Repeat("x\n", 12), args{"old": "x", "new": "y", "all": true}, "replaced 12 in f (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)\n", strings.Repeat("y\n", 12)},
		{"twice", text, args{"old": "return 1", "new": "return 2"}, "old occurs in f 2 times (lines 2, 6): include more surrounding lines, or set all to replace every match. Nothing was changed.", text},
		{"absent", text, args{"old": "func d()", "new": ""}, "old is not in f: read the file again and copy the text exactly, with its spaces and line breaks. Nothing was changed.", text},
		{"spaces", text, args{"old": "func b() {\n    return 1\n}", "new": ""}, "old is not in f, but the lines from 5 on differ from it only in spaces: read them and copy them exactly. Nothing was changed.", text},
		{"longer than the file", "a", args{"old": "a\nb\nc", "new": ""}, "old is not in f: read the file again and copy the text exactly, with its spaces and line breaks. Nothing was changed.", "a"},
		{"only spaces", "a\nb", args{"old": "\n\n", "new": ""}, "old is not in f: read the file again and copy the text exactly, with its spaces and line breaks. Nothing was changed.", "a\nb"},
		{"same", text, args{"old": "a", "new": "a"}, "Tool failed: old and new are the same text", text},
		{"nothing", text, args{"old": "", "new": "a"}, "Invalid arguments: old: minLength: got 0, want 1", text},
		{"binary", "a\x00b", args{"old": "a", "new": "b"}, "Tool failed: f is a binary file of 3 bytes, not text", "a\x00b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, map[string]string{"f": row.file})
			row.in["path"] = "f"
			r := k.invoke(t, "fs_replace_in_file", row.in)
			equal(t, "text", r.Result.Text(), row.want)
			equal(t, "file", k.content(t, "f"), row.then)
			if changed := len(r.ChangedPaths) > 0; changed != (row.file != row.then) {
				t.Errorf("changed paths = %v", r.ChangedPaths)
			}
			if hint := strings.HasPrefix(row.want, "old "); hint != (r.Result.Code == tool.CodeRetry) {
				t.Errorf("code = %q", r.Result.Code)
			}
		})
	}
}

func TestReplaceRefusesLargeFiles(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"big": strings.Repeat("x", 16<<20+1), "old": "x", "d/": ""})
	k.link(t, "old", "link")
	in := func(path string) args { return args{"path": path, "old": "x", "new": "y", "all": true} }
	equal(t, "big", k.fail(t, fs.CodeTooLarge, "fs_replace_in_file", in("big")), "Tool failed: big is larger than 16 MiB, too large to edit")
	equal(t, "link", k.call(t, "fs_replace_in_file", in("link")), "replaced 1 in old (line 1)\n")
	k.fail(t, fs.CodeKind, "fs_replace_in_file", in("d"))
	k.fail(t, tool.CodeNoFile, "fs_replace_in_file", in("no"))
}

// TestConcurrentEditsAreNotLost has edits that each depend on the others' content.
func TestConcurrentEditsAreNotLost(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 20 {
		fmt.Fprintf(&lines, "<%d>\n", i)
	}
	k := newKit(t, map[string]string{"f": lines.String()})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			k.call(t, "fs_replace_in_file", args{"path": "f", "old": fmt.Sprintf("<%d>", i), "new": "done"})
		})
	}
	wg.Wait()
	equal(t, "file", k.content(t, "f"), strings.Repeat("done\n", 20))
}

func TestDelete(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"f": "x", "d/a/b": "x", "m/n/": ""})
	k.link(t, "d", "link")
	equal(t, "not empty", k.fail(t, fs.CodeNotEmpty, "fs_delete", args{"path": "d"}), "Tool failed: d is not empty: set recursive to delete it and everything in it")
	equal(t, "missing", k.fail(t, tool.CodeNoFile, "fs_delete", args{"path": "no", "recursive": true}), "Tool failed: no does not exist: use fs_list_directory or fs_find to see what does")
	equal(t, "root", k.fail(t, tool.CodeDenied, "fs_delete", args{"path": "d/..", "recursive": true}), `Tool failed: path "d/.." is the root itself, which cannot be deleted`)
	for _, path := range []string{"f", "m/n", "link"} {
		equal(t, path, k.call(t, "fs_delete", args{"path": path}), "deleted "+path+"\n")
	}
	equal(t, "the link was deleted, not what it leads to", k.content(t, "d/a/b"), "x")
	equal(t, "recursive", k.call(t, "fs_delete", args{"path": "d", "recursive": true}), "deleted d\n")
	equal(t, "left", k.call(t, "fs_list_directory", nil), "m/\n")
}
