package fs_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
)

// TestIgnoreRules has rows from git's manual: the lines of a .gitignore file, then the
// files of the tree, with a minus if they are ignored.
func TestIgnoreRules(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		rules string
		files string
	}{
		"a name":                     {"log", "-log -a/log -b/log/x logs a/logs/b"},
		"a pattern":                  {"*.o\n", "-a.o -a/b.o a.oo o"},
		"comments and blanks":        {"# no\n\n   \n\\#yes\n", "no -#yes # "},
		"a bang that is meant":       {`\!x`, "-!x x"},
		"trailing blanks":            {"x  \ny\\ ", "-x y"},
		"only directories":           {"build/", "-build/x -a/build/x b/build"},
		"from here":                  {"/build", "-build a/build"},
		"a slash in the middle":      {"a/build", "-a/build/x b/a/build build"},
		"anywhere":                   {"**/a/build", "-a/build -b/a/build build"},
		"all within":                 {"a/**", "-a/b -a/c/d b/a/b"},
		"directories between":        {"a/**/z", "-a/z -a/b/z -a/b/c/z z b/z"},
		"classes":                    {"[a-c]x\n[!d]y", "-ax -cx dx -ay dy"},
		"odd classes":                {"x[]a]\ny[a-]\nz[!]a]\n", "-x] -xa xb -y- -ya yb z] za -zb"},
		"named classes":              {"x[[:digit:]]\ny[^[:alpha:]_]", "-x1 xa y_ ya -y1"},
		"a question mark":            {"?", "-a ab -b/x"},
		"no star over slashes":       {"a/*.go", "-a/x.go a/b/x.go"},
		"the last one counts":        {"*.log\n!keep.log", "-a.log keep.log a/keep.log"},
		"and again":                  {"!a\na", "-a"},
		"all but":                    {"/*\n!/src", "-a src/a src/b/c -b/c"},
		"none within what is left":   {"a/\n!a/b", "-a/b"},
		"all within but":             {"a/*\n!a/b", "-a/x a/b"},
		"a pattern that is none":     {"[a\nb", "[a -b"},
		"lines of another system":    {"a\r\nb\r\n", "-a -b c"},
		"a mark of the byte order":   {"\uFEFFa\n", "-a b"},
		"a directory further down":   {"*.log\n", "-x.log sub/keep.log -sub/x.log"},
		"a repository further down":  {"*.log\n", "-x.log repo/x.log -repo/y.txt"},
		"nothing":                    {"", "a b/c"},
		"the whole tree but nothing": {"*", "-a -b/c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{
				".gitignore": row.rules, "sub/.gitignore": "!keep.log\n", "repo/.gitignore": "*.txt", "repo/.git/": "",
			}
			var want []string
			for f := range strings.SplitSeq(row.files, " ") {
				f, out := strings.CutPrefix(f, "-")
				if f != "" {
					files[f] = ""
				}
				if f != "" && !out {
					want = append(want, f)
				}
			}
			k := newKit(t, files)
			var got []string
			text := k.call(t, "fs_find", args{"glob": "*", "type": "file"})
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				if _, ok := files[line]; ok && !strings.HasSuffix(line, ".gitignore") {
					got = append(got, line)
				}
			}
			for _, w := range want {
				if !strings.Contains("\n"+text, "\n"+w+"\n") {
					t.Errorf("%s is left out", w)
				}
			}
			if len(got) != len(want) {
				t.Errorf("found %q, want %q", got, want)
			}
		})
	}
}

func TestIgnoredFilesAreLeftOutAndReported(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{
		".gitignore": "node/\n*.log\n", "a.go": "one\n", "x.log": "one\n", "node/m/m.go": "one\n", ".git/config": "one\n",
	})
	all := args{"include_ignored": true}
	with := func(in args) args {
		out := args{}
		for _, m := range []args{in, all} {
			maps.Copy(out, m)
		}
		return out
	}
	for _, row := range []struct {
		tool string
		in   args
		want string
	}{
		{"fs_search", args{"pattern": "one"}, "a.go:1: one\n[matching lines: 1, in 1 of 2 files; left out by ignore files: 2]\n"},
		{"fs_search", with(args{"pattern": "one"}), "a.go:1: one\nnode/m/m.go:1: one\nx.log:1: one\n[matching lines: 3, in 3 of 4 files]\n"},
		{"fs_search", args{"pattern": "one", "path": "node"}, "node/m/m.go:1: one\n[matching lines: 1, in 1 of 1 files]\n"},
		{"fs_search", args{"pattern": "one", "path": "x.log"}, "x.log:1: one\n[matching lines: 1, in 1 of 1 files]\n"},
		{"fs_search", args{"pattern": "none"}, "no match in 2 files; left out by ignore files: 2\n"},
		{"fs_find", args{"glob": "*.go"}, "a.go\n[found: 1 of 3 names; left out by ignore files: 2]\n"},
		{"fs_find", with(args{"glob": "*.go"}), "a.go\nnode/m/m.go\n[found: 2 of 7 names]\n"},
		{"fs_count", args{"include": "*.go"}, `{"files":[{"path":"a.go","lines":1,"words":1,"bytes":4}],"total":{"files":1,"lines":1,"words":1,"bytes":4},"left_out_by_gitignore":2}`},
		{"fs_count", with(args{"include": "*.log"}), `{"files":[{"path":"x.log","lines":1,"words":1,"bytes":4}],"total":{"files":1,"lines":1,"words":1,"bytes":4}}`},
		{"fs_list_directory", args{"depth": 3}, ".git/\n.gitignore (12 bytes)\na.go (4 bytes)\nnode/\nx.log (4 bytes)\n"},
		{"fs_list_directory", with(args{"depth": 3}), ".git/\n.gitignore (12 bytes)\na.go (4 bytes)\nnode/\nnode/m/\nnode/m/m.go (4 bytes)\nx.log (4 bytes)\n"},
		{"fs_list_directory", args{"path": "node"}, "node/m/\n"},
	} {
		equal(t, row.tool+fmt.Sprint(row.in), k.call(t, row.tool, row.in), row.want)
	}
}

func TestIgnoreFilesAboveTheStartApply(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{
		".gitignore": "*.log\n/a/b/x\n", "a/.gitignore": "y\n", ".git/info/exclude": "z\n",
		"a/b/x": "", "a/b/y": "", "a/b/z": "", "a/b/w.log": "", "a/b/v": "",
	})
	equal(t, "find", k.call(t, "fs_find", args{"glob": "*", "path": "a/b"}), "a/b/v\n[found: 1 of 1 names; left out by ignore files: 4]\n")
}

func TestIgnoreFileThatIsALinkIsNotRead(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, content := range map[string]string{"rules": "a\n", "a": "x\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("rules", filepath.Join(root, ".gitignore")); err != nil {
		t.Fatal(err)
	}
	tools, err := fs.New(root, fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := kit{root: root, tools: make(map[string]tool.Tool)}
	for _, x := range tools {
		k.tools[x.Spec().Name] = x
	}
	equal(t, "find", k.call(t, "fs_find", args{"glob": "a"}), "a\n[found: 1 of 3 names]\n")
}
