package fs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/turnlog/turnlog/tool/fs"
)

func TestPatchAppliesGitHeaders(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		patch, answer string
		want          map[string]string // "-" is gone
		executable    []string
	}{
		"an empty file": {
			"diff --git a/d/new b/d/new\nnew file mode 100644\nindex 0000000..e69de29\n" +
				"diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+eins\n",
			"created d/new\nchanged f\n",
			map[string]string{"d/new": "", "f": "eins\n"},
			nil,
		},
		"an empty file is gone": {
			"diff --git a/empty b/empty\ndeleted file mode 100644\nindex e69de29..0000000\n", "deleted empty\n",
			map[string]string{"empty": "-"},
			nil,
		},
		"a program": {
			"diff --git a/run b/run\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+#!/bin/sh\n",
			"created run\n",
			map[string]string{"run": "#!/bin/sh\n"},
			[]string{"run"},
		},
		"modes": {
			"diff --git a/f b/f\nold mode 100644\nnew mode 100755\ndiff --git a/x b/x\nold mode 100755\nnew mode 100644\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n",
			"changed f\nchanged x\n",
			map[string]string{"f": "one\n", "x": "y\n"},
			[]string{"f"},
		},
		"names in quotes": {
			"diff --git \"a/\\303\\274\" \"b/\\303\\274\"\nnew file mode 100644\ndiff --git a/f \"b/\\303\\244\"\nsimilarity index 100%\nrename from f\nrename to \"\\303\\244\"\n",
			"created ü\nrenamed f to ä\nremoved f\n",
			map[string]string{"ü": "", "ä": "one\n", "f": "-"},
			nil,
		},
		"names with blanks": {
			"diff --git a/a b c b/a b c\nnew file mode 100644\n", "created a b c\n",
			map[string]string{"a b c": ""},
			nil,
		},
		"words before it": {
			"new mode of writing\ncopy from here\n\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+eins\n",
			"changed f\n",
			map[string]string{"f": "eins\n"},
			nil,
		},
		"a diff of text that is about patches": {
			"--- a/doc\n+++ b/doc\n@@ -1,2 +1,2 @@\n *** Begin Patch\n-x\n+y\n",
			"changed doc\n",
			map[string]string{"doc": "*** Begin Patch\ny\n"},
			nil,
		},
		"the other form about diffs": {
			"Here it is:\n*** Begin Patch\n*** Add File: n\n+--- a/f\n+++ b/f\n*** End Patch\n",
			"created n\n",
			map[string]string{"n": "--- a/f\n++ b/f\n"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, map[string]string{"f": "one\n", "empty": "", "x": "x\n", "doc": "*** Begin Patch\nx\n"})
			if err := os.Chmod(filepath.Join(k.root, "x"), 0o755); err != nil {
				t.Fatal(err)
			}
			equal(t, "answer", k.invoke(t, "fs_patch", args{"patch": row.patch}).Result.Text(), row.answer)
			for file, want := range row.want {
				if want != "-" {
					equal(t, file, k.content(t, file), want)
				} else if _, err := os.Lstat(filepath.Join(k.root, file)); !os.IsNotExist(err) {
					t.Errorf("%s is still there", file)
				}
			}
			executable := map[string]bool{}
			for _, file := range row.executable {
				executable[file] = true
			}
			for file, want := range row.want {
				if want == "-" {
					continue
				}
				info, err := os.Stat(filepath.Join(k.root, file))
				if err != nil || info.Mode()&0o111 != 0 != executable[file] {
					t.Errorf("%s: mode %v, %v", file, info.Mode(), err)
				}
			}
			noLeftovers(t, k)
		})
	}
}

func TestPatchRefusesUnsupportedGitHeaders(t *testing.T) {
	t.Parallel()
	const tail = ". Nothing was changed."
	for name, row := range map[string]struct{ patch, want string }{
		"a copy": {
			"diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n",
			"line 3 of the patch: a patch cannot copy a file: write the copy",
		},
		"a link": {
			"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
			`line 2 of the patch: mode "120000": a patch can only set the modes 100644 and 100755`,
		},
		"not empty":  {"diff --git a/f b/f\ndeleted file mode 100644\n", "line 1 of the patch: f is deleted, but has more lines than the patch removes"},
		"no name":    {"diff --git a/f b/g\nnew file mode 100644\n", "line 1 of the patch: no file name"},
		"there":      {"diff --git a/f b/f\nnew file mode 100644\n", "line 1 of the patch: f already exists: change it, or delete it first"},
		"mode as is": {"diff --git a/f b/f\nold mode 100755\nnew mode 100644\n", "line 1 of the patch: it changes nothing in f"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"f": "one\n"}
			k := newKit(t, files)
			equal(t, "answer", k.fail(t, fs.CodePatch, "fs_patch", args{"patch": row.patch}), "Tool failed: "+row.want+tail)
			k.holds(t, files, nil)
		})
	}
}
