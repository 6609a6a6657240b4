package fs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
)

func TestListDirectory(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{
		"b.txt": "12345", "a/z/deep.txt": "1", "a/y.txt": "", ".git/config": "x", ".hidden": "1", "empty/": "", "odd\nname": "",
	})
	k.link(t, "b.txt", "link")
	root := ".git/\n.hidden (1 bytes)\na/\nb.txt (5 bytes)\nempty/\nlink -> b.txt\n\"odd\\nname\" (0 bytes)\n"
	equal(t, "root", k.call(t, "fs_list_directory", nil), root)
	equal(t, "depth", k.call(t, "fs_list_directory", args{"depth": 2}), strings.Replace(root, "a/\n", "a/\na/y.txt (0 bytes)\na/z/\n", 1))
	equal(t, "below", k.call(t, "fs_list_directory", args{"path": "a", "depth": 2}), "a/y.txt (0 bytes)\na/z/\na/z/deep.txt (1 bytes)\n")
	equal(t, "git", k.call(t, "fs_list_directory", args{"path": ".git"}), ".git/config (1 bytes)\n")
	equal(t, "empty", k.call(t, "fs_list_directory", args{"path": "empty"}), "empty is empty\n")
	equal(t, "file", k.fail(t, fs.CodeKind, "fs_list_directory", args{"path": "b.txt"}),
		"Tool failed: b.txt is a file of 5 bytes: read it with fs_read_file")
	equal(t, "missing", k.fail(t, tool.CodeNoFile, "fs_list_directory", args{"path": "c"}),
		"Tool failed: c does not exist: use fs_list_directory or fs_find to see what does")
	equal(t, "below a file", k.fail(t, tool.CodeFileSystem, "fs_list_directory", args{"path": "b.txt/c"}), "Tool failed: b.txt/c: not a directory")
}

func TestLongListingStops(t *testing.T) {
	t.Parallel()
	files := make(map[string]string)
	for i := range 1001 {
		files[fmt.Sprintf("f%04d", i)] = ""
	}
	k := newKit(t, files)
	got := k.call(t, "fs_list_directory", nil)
	want := "f0999 (0 bytes)\n[stopped after 1000 entries: list a subdirectory, use less depth, or use fs_find]\n"
	if !strings.HasSuffix(got, want) || strings.Count(got, "\n") != 1001 {
		t.Errorf("ends with %q", got[len(got)-100:])
	}
	if err := os.Remove(filepath.Join(k.root, "f0000")); err != nil {
		t.Fatal(err)
	}
	if got := k.call(t, "fs_list_directory", nil); !strings.HasSuffix(got, "f1000 (0 bytes)\n") {
		t.Errorf("ends with %q", got[len(got)-100:])
	}
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{
		"three": "one\ntwo\r\nthree", "empty": "", "binary": "PNG\x00\x01", "latin": "caf\xe9\n", "d/": "",
	})
	for _, row := range []struct {
		in   args
		want string
	}{
		{args{"path": "three"}, "three: lines 1 to 3 of 3 (14 bytes)\none\ntwo\r\nthree"},
		{args{"path": "three", "first_line": 2}, "three: lines 2 to 3 of 3 (14 bytes)\ntwo\r\nthree"},
		{args{"path": "three", "first_line": 2, "last_line": 2}, "three: lines 2 to 2 of 3 (14 bytes)\ntwo\r\n"},
		{args{"path": "three", "last_line": 9}, "three: lines 1 to 3 of 3 (14 bytes)\none\ntwo\r\nthree"},
		{args{"path": "empty"}, "empty is empty\n"},
		{args{"path": "latin"}, "latin: lines 1 to 1 of 1 (5 bytes); bytes that are not UTF-8 are shown as \uFFFD\ncaf\uFFFD\n"},
	} {
		equal(t, fmt.Sprint(row.in), k.call(t, "fs_read_file", row.in), row.want)
	}
	for _, row := range []struct {
		code string
		in   args
		want string
	}{
		{tool.CodeInvalidArguments, args{"path": "three", "first_line": 4}, "Invalid arguments: first_line: is 4, but three has 3 lines"},
		{tool.CodeInvalidArguments, args{"path": "three", "first_line": 3, "last_line": 2}, "Invalid arguments: last_line: is 2, before first_line, which is 3"},
		{tool.CodeInvalidArguments, args{"path": "three", "first_line": 0}, "Invalid arguments: first_line: minimum: got 0, want 1"},
		{fs.CodeBinary, args{"path": "binary"}, "Tool failed: binary is a binary file of 5 bytes, not text"},
		{fs.CodeKind, args{"path": "d"}, "Tool failed: d is a directory: list it with fs_list_directory, or name a file in it"},
		{fs.CodeKind, args{"path": ""}, "Tool failed: . is a directory: list it with fs_list_directory, or name a file in it"},
		{tool.CodeNoFile, args{"path": "no"}, "Tool failed: no does not exist: use fs_list_directory or fs_find to see what does"},
		{tool.CodeFileSystem, args{"path": "a\x00b"}, `Tool failed: "a\x00b": invalid argument`},
	} {
		equal(t, fmt.Sprint(row.in), k.fail(t, row.code, "fs_read_file", row.in), row.want)
	}
}

func TestLargeFileIsReadInRanges(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	k := newKit(t, map[string]string{
		"many": b.String(),
		"wide": strings.Repeat(strings.Repeat("é", 60<<10)+"\n", 4),
		"one":  "é" + strings.Repeat("x", 1<<20) + "\nnext\n",
	})
	got := k.call(t, "fs_read_file", args{"path": "many"})
	header := fmt.Sprintf("many: lines 1 to 2000 of 5000 (%d bytes); continue with first_line 2001\nline 1\n", b.Len())
	if !strings.HasPrefix(got, header) || !strings.HasSuffix(got, "\nline 2000\n") {
		t.Errorf("got %q … %q", got[:100], got[len(got)-20:])
	}
	got = k.call(t, "fs_read_file", args{"path": "many", "first_line": 4001})
	if !strings.HasPrefix(got, "many: lines 4001 to 5000 of 5000 (") || !strings.HasSuffix(got, "\nline 5000\n") || strings.Contains(got, "go on") {
		t.Errorf("got %q … %q", got[:100], got[len(got)-20:])
	}
	got = k.call(t, "fs_read_file", args{"path": "wide"})
	if !strings.HasPrefix(got, "wide: lines 1 to 2 of 4 (491524 bytes); continue with first_line 3\n") {
		t.Errorf("got %q", got[:100])
	}
	got = k.call(t, "fs_read_file", args{"path": "one"})
	header = "one: lines 1 to 1 of 2 (1048584 bytes); line 1 is too long and was cut; continue with first_line 2\n"
	if !strings.HasPrefix(got, header) || len(got) != len(header)+256<<10 {
		t.Errorf("got %d bytes: %q", len(got), got[:120])
	}
	equal(t, "next", k.call(t, "fs_read_file", args{"path": "one", "first_line": 2}), "one: lines 2 to 2 of 2 (1048584 bytes)\nnext\n")
}

func TestFind(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{
		"main.go": "", "main_test.go": "", "cmd/x/main.go": "", "cmd/y/main.go": "", "cmd/x/readme.md": "", "cmd/.git/main.go": "", "d.go/": "",
	})
	for _, row := range []struct {
		in   args
		want string
	}{
		{args{"glob": "*.go"}, "cmd/x/main.go\ncmd/y/main.go\nd.go/\nmain.go\nmain_test.go\n[found: 5 of 10 names]\n"},
		{args{"glob": "*.go", "type": "file", "path": "cmd"}, "cmd/x/main.go\ncmd/y/main.go\n[found: 2 of 6 names]\n"},
		{args{"glob": "*", "type": "directory"}, "cmd/\ncmd/.git/\ncmd/x/\ncmd/y/\nd.go/\n[found: 5 of 10 names]\n"},
		{args{"glob": "cmd/**/main.go"}, "cmd/x/main.go\ncmd/y/main.go\n[found: 2 of 10 names]\n"},
		{args{"glob": "x/*.{go,md}", "path": "cmd"}, "cmd/x/main.go\ncmd/x/readme.md\n[found: 2 of 6 names]\n"},
		{args{"glob": "main.go", "limit": 2}, "cmd/x/main.go\ncmd/y/main.go\n[stopped after 2: narrow the glob or the path, or raise limit]\n"},
		{args{"glob": "main.go", "limit": 3}, "cmd/x/main.go\ncmd/y/main.go\nmain.go\n[found: 3 of 10 names]\n"},
		{args{"glob": "*.rs"}, "nothing matches among 10 names\n"},
		{args{"glob": "main.go", "path": "main.go"}, "main.go\n[found: 1 of 1 names]\n"},
	} {
		equal(t, fmt.Sprint(row.in), k.call(t, "fs_find", row.in), row.want)
	}
	equal(t, "bad glob", k.fail(t, tool.CodeInvalidArguments, "fs_find", args{"glob": "[a"}), `Invalid arguments: glob: "[a" is not a pattern: a [ or { is not closed`)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{
		"a.go":          "package a\n\nfunc One() {}\n\n\n\nfunc Two() {}\nfunc Three() {}\n",
		"b/b.md":        "About func One.\r\n",
		"b/c.go":        "nothing",
		"vendor/v.go":   "func One() {}",
		".git/x":        "func One() {}",
		"bin":           "func One\x00",
		"latin":         "func On\xe9\n",
		"node/long.txt": strings.Repeat("é", 200) + "func" + strings.Repeat("x", 500),
	})
	for _, row := range []struct {
		in   args
		want string
	}{
		{args{"pattern": `func O\w+`, "exclude": "vendor"}, "a.go:3: func One() {}\nb/b.md:1: About func One.\nlatin:1: func On\uFFFD\n[matching lines: 3, in 3 of 5 files; skipped: 1 binary]\n"},
		{args{"pattern": "one()", "literal": true, "ignore_case": true, "include": "*.go"}, "a.go:3: func One() {}\nvendor/v.go:1: func One() {}\n[matching lines: 2, in 2 of 3 files]\n"},
		{args{"pattern": "One", "path": "b"}, "b/b.md:1: About func One.\n[matching lines: 1, in 1 of 2 files]\n"},
		{args{"pattern": "One", "path": "b/b.md"}, "b/b.md:1: About func One.\n[matching lines: 1, in 1 of 1 files]\n"},
		{args{"pattern": "One|Two|Three", "path": "a.go", "context": 1}, "a.go-2- \na.go:3: func One() {}\na.go-4- \n--\na.go-6- \na.go:7: func Two() {}\na.go:8: func Three() {}\n[matching lines: 3, in 1 of 1 files]\n"},
		{args{"pattern": "package|One|nothing", "include": "{a.go,*.md,c.go}", "context": 1}, "a.go:1: package a\na.go-2- \na.go:3: func One() {}\na.go-4- \n--\nb/b.md:1: About func One.\n--\nb/c.go:1: nothing\n[matching lines: 4, in 3 of 3 files]\n"},
		{args{"pattern": "func", "path": "a.go", "limit": 2}, "a.go:3: func One() {}\na.go:7: func Two() {}\n[matching lines: 2, in 1 of 1 files]\n[stopped: narrow the pattern, the path or include, or raise limit]\n"},
		{args{"pattern": "func", "path": "a.go", "limit": 3}, "a.go:3: func One() {}\na.go:7: func Two() {}\na.go:8: func Three() {}\n[matching lines: 3, in 1 of 1 files]\n"},
		{args{"pattern": "func", "path": "a.go", "limit": 1, "context": 1}, "a.go-2- \na.go:3: func One() {}\na.go-4- \n[matching lines: 1, in 1 of 1 files]\n[stopped: narrow the pattern, the path or include, or raise limit]\n"},
		{args{"pattern": "absent", "include": "*.md"}, "no match in 1 files\n"},
		{args{"pattern": "func", "path": "node"}, "node/long.txt:1: …" + strings.Repeat("é", 50) + "func" + strings.Repeat("x", 196) + "…\n[matching lines: 1, in 1 of 1 files]\n"},
	} {
		equal(t, fmt.Sprint(row.in), k.call(t, "fs_search", row.in), row.want)
	}
	got := k.fail(t, tool.CodeInvalidArguments, "fs_search", args{"pattern": "One("})
	if !strings.HasPrefix(got, "Invalid arguments: pattern: error parsing regexp") || !strings.HasSuffix(got, "; set literal to search for plain text") {
		t.Error(got)
	}
	equal(t, "include", k.fail(t, tool.CodeInvalidArguments, "fs_search", args{"pattern": "x", "include": "{a"}), `Invalid arguments: include: "{a" is not a pattern: a [ or { is not closed`)
	k.fail(t, tool.CodeInvalidArguments, "fs_search", args{"pattern": "x", "exclude": "[a"})
	k.fail(t, tool.CodeInvalidArguments, "fs_search", args{"pattern": ""})
}

func TestCount(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{
		"a.go": "one two\nthree\n", "b.go": "1\n2\n3", "c_test.go": "x\n", "empty": "", "big.txt": strings.Repeat("word \n", 50_000), "bin": "\x00",
	})
	type file struct {
		Path                string
		Lines, Words, Bytes int64
	}
	var got struct {
		Files []file
		Total struct{ Files, Lines, Words, Bytes int64 }
		Bin   int `json:"binary_files_skipped"`
	}
	count := func(in args) string {
		t.Helper()
		text := k.call(t, "fs_count", in)
		got.Files, got.Bin = nil, 0
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range got.Files {
			names = append(names, f.Path)
		}
		return strings.Join(names, " ")
	}
	equal(t, "default", count(nil), "big.txt b.go a.go c_test.go empty")
	if want := (file{"big.txt", 50_000, 50_000, 300_000}); got.Files[0] != want {
		t.Errorf("big.txt = %+v, want %+v", got.Files[0], want)
	}
	if want := (file{"b.go", 3, 3, 5}); got.Files[1] != want {
		t.Errorf("b.go = %+v, want %+v", got.Files[1], want)
	}
	if got.Total.Files != 5 || got.Total.Lines != 50_006 || got.Total.Words != 50_007 || got.Total.Bytes != 300_021 || got.Bin != 1 {
		t.Errorf("total = %+v, binary = %d", got.Total, got.Bin)
	}
	equal(t, "globs", count(args{"include": "*.go", "exclude": "*_test.go"}), "b.go a.go")
	equal(t, "bytes", count(args{"include": "*.go", "sort": "bytes"}), "a.go b.go c_test.go")
	equal(t, "words", count(args{"include": "*.go", "sort": "words"}), "a.go b.go c_test.go")
	equal(t, "path", count(args{"include": "*.go", "sort": "path"}), "a.go b.go c_test.go")
	equal(t, "limit", count(args{"limit": 1}), "big.txt")
	if got.Total.Files != 5 {
		t.Errorf("with a limit of 1, %d files are counted", got.Total.Files)
	}
	equal(t, "one file", count(args{"path": "a.go"}), "a.go")
	equal(t, "none", count(args{"include": "*.rs"}), "")
	k.fail(t, tool.CodeNoFile, "fs_count", args{"path": "no"})
}

func TestUnreadableFilesAreReported(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "x\n", "bad\xff/b": "x\n"}) // not even root can open such a name
	equal(t, "search", k.call(t, "fs_search", args{"pattern": "x"}), "a:1: x\n[matching lines: 1, in 1 of 1 files; could not be read: 1]\n")
	equal(t, "find", k.call(t, "fs_find", args{"glob": "a"}), "a\n[found: 1 of 2 names; could not be read: 1]\n")
	equal(t, "list", k.call(t, "fs_list_directory", args{"depth": 2}), "a (2 bytes)\n\"bad\\xff\"/\n[directories that could not be read: 1]\n")
	equal(t, "count", k.call(t, "fs_count", nil), `{"files":[{"path":"a","lines":1,"words":1,"bytes":2}],"total":{"files":1,"lines":1,"words":1,"bytes":2},"unreadable":1}`)
}

func TestWalkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"a": "x\n"})
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	for _, name := range []string{"fs_list_directory", "fs_find", "fs_search", "fs_count", "fs_read_file"} {
		_, err := k.tools[name].Call(ctx, tool.Call{Input: json.RawMessage(`{"path":"","glob":"*","pattern":"x"}`)})
		if name == "fs_read_file" {
			_, err = k.tools[name].Call(ctx, tool.Call{Input: json.RawMessage(`{"path":"a"}`)})
		}
		if !errors.Is(err, stopped) {
			t.Errorf("%s = %v, want the cause of its context", name, err)
		}
	}
	if r := tool.Invoke(ctx, k.tools["fs_count"], tool.Call{}).Result; r.Status != content.StatusCancelled {
		t.Errorf("status = %s", r.Status)
	}
}

// A text in an old encoding may have no byte at which a character of UTF-8 begins.
func TestLongLineOfUnknownEncodingIsCut(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{"old.txt": strings.Repeat("\x8f", 300_000)})
	got := k.call(t, "fs_read_file", args{"path": "old.txt"})
	if !strings.Contains(got, "line 1 is too long and was cut; bytes that are not UTF-8") || !strings.HasSuffix(got, "\uFFFD") {
		t.Errorf("fs_read_file returns %q", got)
	}
}
