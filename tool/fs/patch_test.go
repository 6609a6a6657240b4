package fs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
)

const poem = "one\ntwo\nthree\nfour\nfive\n"

func TestPatch(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		files   map[string]string
		patch   string
		want    map[string]string // files after the patch, without unchanged ones
		answer  string
		changed []string
	}{
		"unified": {
			map[string]string{"f": poem},
			"--- a/f\n+++ b/f\n@@ -2,2 +2,3 @@ where\n two\n-three\n+drei\n+dreieinhalb\n",
			map[string]string{"f": "one\ntwo\ndrei\ndreieinhalb\nfour\nfive\n"},
			"changed f\n",
			[]string{"f"},
		},
		"wrong numbers": {
			map[string]string{"f": poem},
			"--- f\n+++ f\n@@ -40,7 +41,9 @@\n four\n-five\n+six\n",
			map[string]string{"f": "one\ntwo\nthree\nfour\nsix\n"},
			"changed f\n",
			[]string{"f"},
		},
		"the line decides among equals": {
			map[string]string{"f": "a\nx\na\nx\na\n"},
			"--- f\n+++ f\n@@ -3 +3 @@\n-a\n+b\n@@ -5 +5 @@\n-a\n+c\n",
			map[string]string{"f": "a\nx\nb\nx\nc\n"},
			"changed f\n",
			[]string{"f"},
		},
		"numbers shift together": {
			map[string]string{"f": "0\na\na\na\na\n"},
			"--- f\n+++ f\n@@ -11,2 +11 @@\n-0\n a\n@@ -13 +12 @@\n-a\n+b\n",
			map[string]string{"f": "a\nb\na\na\n"},
			"changed f\n",
			[]string{"f"},
		},
		"an insertion by line": {
			map[string]string{"f": poem},
			"--- f\n+++ f\n@@ -2,0 +3 @@\n+2.5\n",
			map[string]string{"f": "one\ntwo\n2.5\nthree\nfour\nfive\n"},
			"changed f\n",
			[]string{"f"},
		},
		"context without its blank": {
			map[string]string{"f": "a\n\nb\n"},
			"--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n\n\n",
			map[string]string{"f": "a\n\nc\n"},
			"changed f\n",
			[]string{"f"},
		},
		"several files": {
			map[string]string{"f": poem, "old": "x\n", "gone": "bye\n"},
			"diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+eins\n" +
				"diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/d/new\n@@ -0,0 +1,2 @@\n+a\n+b\n" +
				"diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n" +
				"diff --git a/old b/moved\nsimilarity index 100%\nrename from old\nrename to moved\n-- \n2.30\n",
			map[string]string{"f": "eins\ntwo\nthree\nfour\nfive\n", "d/new": "a\nb\n", "gone": "", "old": "", "moved": "x\n"},
			"changed f\ncreated d/new\ndeleted gone\nrenamed old to moved\nremoved old\n",
			[]string{"d/new", "f", "gone", "moved", "old"},
		},
		"lines that look like heads": {
			map[string]string{"f": "-- x\nrest\n"},
			"--- f\n+++ f\n@@ -1,2 +1,2 @@\n--- x\n+++ y\n rest\n",
			map[string]string{"f": "++ y\nrest\n"},
			"changed f\n",
			[]string{"f"},
		},
		"the end of the file": {
			map[string]string{"f": "a\nb", "g": "a\nb\n"},
			"--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n--- g\n+++ g\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n",
			map[string]string{"f": "a\nb\n", "g": "a\nb"},
			"changed f\nchanged g\n",
			[]string{"f", "g"},
		},
		"line breaks of Windows": {
			map[string]string{"f": "a\r\nb\r\n"},
			"--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n",
			map[string]string{"f": "a\r\nc\r\nd\r\n"},
			"changed f\n",
			[]string{"f"},
		},
		"enveloped": {
			map[string]string{"f": poem, "gone": "x", "old": "a\nb\n"},
			"*** Begin Patch\n*** Update File: f\n@@ two\n-three\n+drei\n*** Add File: n/new\n+hello\n+\n*** Delete File: gone\n" +
				"*** Update File: old\n*** Move to: moved\n a\n-b\n+c\n*** End Patch\n",
			map[string]string{"f": "one\ntwo\ndrei\nfour\nfive\n", "n/new": "hello\n\n", "gone": "", "old": "", "moved": "a\nc\n"},
			"changed f\ncreated n/new\ndeleted gone\nrenamed old to moved\nremoved old\n",
			[]string{"f", "gone", "moved", "n/new", "old"},
		},
		"what stands before decides": {
			map[string]string{"f": "func a\n\treturn\nfunc b\n\treturn\n"},
			"*** Begin Patch\n*** Update File: f\n@@ func b\n-\treturn\n+\treturn 1\n*** End Patch",
			map[string]string{"f": "func a\n\treturn\nfunc b\n\treturn 1\n"},
			"changed f\n",
			[]string{"f"},
		},
		"at the end": {
			map[string]string{"f": "x\ny\nx\n"},
			"*** Begin Patch\n*** Update File: f\n@@\n-x\n+z\n*** End of File\n*** End Patch",
			map[string]string{"f": "x\ny\nz\n"},
			"changed f\n",
			[]string{"f"},
		},
		"appended": {
			map[string]string{"f": "x\n"},
			"*** Begin Patch\n*** Update File: f\n+y\n*** End Patch",
			map[string]string{"f": "x\ny\n"},
			"changed f\n",
			[]string{"f"},
		},
		"by a link": {
			map[string]string{"f": "x\n", "link": "->f"},
			"--- link\n+++ link\n@@ -1 +1 @@\n-x\n+y\n",
			map[string]string{"f": "y\n"},
			"changed f\n",
			[]string{"f"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := patchKit(t, row.files)
			r := k.invoke(t, "fs_patch", args{"patch": row.patch})
			equal(t, "answer", r.Result.Text(), row.answer)
			if diff := cmp.Diff(row.changed, r.ChangedPaths); diff != "" {
				t.Errorf("changed paths (-want +got):\n%s", diff)
			}
			k.holds(t, row.files, row.want)
		})
	}
}

// patchKit creates files. Content that begins with -> is a symbolic link.
func patchKit(t *testing.T, files map[string]string) kit {
	t.Helper()
	plain := map[string]string{}
	for name, content := range files {
		if !strings.HasPrefix(content, "->") {
			plain[name] = content
		}
	}
	k := newKit(t, plain)
	for name, content := range files {
		if to, ok := strings.CutPrefix(content, "->"); ok {
			k.link(t, to, name)
		}
	}
	return k
}

// holds checks that files are unchanged except for those in changed, where an empty
// one is deleted.
func (k kit) holds(t *testing.T, files, changed map[string]string) {
	t.Helper()
	for name, before := range files {
		if _, ok := changed[name]; !ok && !strings.HasPrefix(before, "->") {
			equal(t, name, k.content(t, name), before)
		}
	}
	for name, want := range changed {
		if want != "" {
			equal(t, name, k.content(t, name), want)
		} else if _, err := os.Lstat(filepath.Join(k.root, name)); !os.IsNotExist(err) {
			t.Errorf("%s is still there", name)
		}
	}
	noLeftovers(t, k)
}

func TestPatchThatDoesNotApplyChangesNothing(t *testing.T) {
	t.Parallel()
	const good = "--- f\n+++ f\n@@ -1 +1 @@\n-one\n+eins\n"
	files := map[string]string{"f": poem, "g": "a\nb\na\nb\n", "d/x": "x\n", "bin": "a\x00b", "out": "->../secret"}
	for name, row := range map[string]struct{ code, patch, want string }{
		"no file":         {fs.CodePatch, "hello", "the patch names no file: use a unified diff with lines --- and +++, or the form that begins with *** Begin Patch. Nothing was changed."},
		"no head":         {fs.CodePatch, "@@ -1 +1 @@\n-a\n", "line 1 of the patch: a hunk without a file: lines --- and +++ with the file name must come first. Nothing was changed."},
		"bad head":        {fs.CodePatch, "--- f\n+++ f\n@@ one @@\n-a\n", `line 3 of the patch: "@@ one @@" is not a hunk header: write it like @@ -10,3 +10,4 @@. Nothing was changed.`},
		"bad begin":       {fs.CodePatch, "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-one\n#two\n", `line 5 of the patch: begins with "#": lines of a hunk begin with a space, + or -. Nothing was changed.`},
		"changes nothing": {fs.CodePatch, "--- f\n+++ f\n@@ -1 +1 @@\n one\n", "line 3 of the patch: the hunk changes nothing: no line begins with + or -. Nothing was changed."},
		"to the same":     {fs.CodePatch, "--- f\n+++ f\n@@ -1 +1 @@\n-one\n+one\n", "line 1 of the patch: it changes nothing in f. Nothing was changed."},
		"the second file": {fs.CodePatch, good + "--- g\n+++ g\n@@ -9,2 +9,2 @@\n a\n-c\n+d\n", `g: hunk 1 (line 8 of the patch): it matches from line 1, but line 2 is "b", not "c": read the file again. Nothing was changed.`},
		"not there":       {fs.CodePatch, "--- f\n+++ f\n@@ -1 +1 @@\n-uno\n+eins\n", `f: hunk 1 (line 3 of the patch): no line from 1 on is "uno": read the file again. Nothing was changed.`},
		"beyond the end":  {fs.CodePatch, "--- f\n+++ f\n@@ -5,2 +5,2 @@\n five\n-six\n+sechs\n", `f: hunk 1 (line 3 of the patch): it matches from line 5, but the file ends before "six". Nothing was changed.`},
		"several places":  {fs.CodePatch, "--- g\n+++ g\n@@ -9,2 +9,2 @@\n a\n-b\n+c\n", "g: hunk 1 (line 3 of the patch): it matches at lines 1, 3: give more lines of context. Nothing was changed."},
		"wrong order":     {fs.CodePatch, "--- f\n+++ f\n@@ -4 +4 @@\n-four\n+4\n@@ -1 +1 @@\n-one\n+1\n", `f: hunk 2 (line 6 of the patch): no line from 5 on is "one": read the file again. Nothing was changed.`},
		"twice":           {fs.CodePatch, good + good, "line 6 of the patch: f appears twice: put its hunks together. Nothing was changed."},
		"exists":          {fs.CodePatch, "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", "line 1 of the patch: f already exists: change it, or delete it first. Nothing was changed."},
		"onto another":    {fs.CodePatch, "*** Begin Patch\n*** Update File: f\n*** Move to: g\n*** End Patch", "line 2 of the patch: g already exists: change it, or delete it first. Nothing was changed."},
		"half deleted":    {fs.CodePatch, "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", "line 1 of the patch: f is deleted, but has more lines than the patch removes. Nothing was changed."},
		"new with old":    {fs.CodePatch, "--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+x\n y\n", "line 1 of the patch: n is created, but not all of its lines begin with +. Nothing was changed."},
		"no end":          {fs.CodePatch, "*** Begin Patch\n*** Delete File: f\n", "line 2 of the patch: the patch does not end: *** End Patch is missing. Nothing was changed."},
		"unknown mark":    {fs.CodePatch, "*** Begin Patch\n*** Change File: f\n*** End Patch", `line 2 of the patch: "*** Change File: f": want *** Add File:, *** Update File:, *** Delete File: or *** End Patch. Nothing was changed.`},
		"no such line":    {fs.CodePatch, "*** Begin Patch\n*** Update File: f\n@@ zero\n-one\n+eins\n*** End Patch", `f: hunk 1 (line 3 of the patch): no line from 1 on is "zero". Nothing was changed.`},
		"not the end":     {fs.CodePatch, "*** Begin Patch\n*** Update File: f\n@@\n-one\n+eins\n*** End of File\n*** End Patch", "f: hunk 1 (line 3 of the patch): it matches at line 1, but must be at the end of the file. Nothing was changed."},
		"binary":          {fs.CodeBinary, "--- bin\n+++ bin\n@@ -1 +1 @@\n-a\n+b\n", "bin is a binary file of 3 bytes, not text"},
		"directory":       {fs.CodeKind, "--- d\n+++ d\n@@ -1 +1 @@\n-a\n+b\n", "d is a directory: list it with fs_list_directory, or name a file in it"},
		"missing":         {tool.CodeNoFile, good + "--- no\n+++ no\n@@ -1 +1 @@\n-a\n+b\n", "no does not exist: use fs_list_directory or fs_find to see what does"},
		"outside":         {tool.CodeDenied, good + "--- /dev/null\n+++ ../x\n@@ -0,0 +1 @@\n+x\n", `path "../x" is outside the root: use a path relative to it`},
		"by a link out":   {tool.CodeDenied, good + "--- /dev/null\n+++ out\n@@ -0,0 +1 @@\n+x\n", "out leads out of the root through a symbolic link, which is not followed"},
		"below a file":    {tool.CodeFileSystem, good + "--- /dev/null\n+++ d/x/y\n@@ -0,0 +1 @@\n+x\n", "d/x/y: not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := patchKit(t, files)
			equal(t, "answer", k.fail(t, row.code, "fs_patch", args{"patch": row.patch}), "Tool failed: "+row.want)
			k.holds(t, files, nil)
		})
	}
}

// TestFailedPatchIsUndone ends with a file below one that the patch itself creates,
// which fails only when it is written.
func TestFailedPatchIsUndone(t *testing.T) {
	t.Parallel()
	files := map[string]string{"f": poem, "gone": "bye\n"}
	k := patchKit(t, files)
	text := k.fail(t, tool.CodeFileSystem, "fs_patch", args{"patch": "--- f\n+++ f\n@@ -1 +1 @@\n-one\n+eins\n--- gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n" +
		"--- /dev/null\n+++ new\n@@ -0,0 +1 @@\n+n\n--- /dev/null\n+++ new/x\n@@ -0,0 +1 @@\n+x\n"})
	equal(t, "answer", text, "Tool failed: new: file exists")
	k.holds(t, files, map[string]string{"new": ""})
}

func TestPatchProposesEveryFile(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	raw, err := json.Marshal(args{"patch": "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Add File: c\n+x\n*** Delete File: ./d\n*** End Patch"})
	if err != nil {
		t.Fatal(err)
	}
	requests, err := k.tools["fs_patch"].(tool.Proposer).Propose(t.Context(), tool.Call{Input: raw})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range requests {
		got = append(got, r.Kind+" "+string(r.Target)+" "+r.Summary)
	}
	want := []string{
		`filesystem.edit {"path":"a"} edit a`, `filesystem.delete {"path":"a"} rename a`, `filesystem.write {"path":"b"} write b`,
		`filesystem.write {"path":"c"} write c`, `filesystem.delete {"path":"d"} delete d`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func FuzzPatch(f *testing.F) {
	f.Add("--- f\n+++ f\n@@ -1 +1 @@\n-one\n+eins\n")
	f.Add("*** Begin Patch\n*** Update File: f\n@@ two\n-three\n+drei\n*** End of File\n*** End Patch\n")
	f.Add("rename from a\nrename to b\n@@\n\\\n")
	f.Fuzz(func(t *testing.T, patch string) {
		k := newKit(t, map[string]string{"f": poem})
		if r := k.invoke(t, "fs_patch", args{"patch": patch}).Result; r.Code == tool.CodePanic {
			t.Error(r.Text())
		}
	})
}
